"""Times as ratios: every round runs each candidate once, beside the operation that it is compared with."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One candidate's times over the baseline's.

    Attributes:
        ratio: median over rounds of its time over the baseline's in the same round.
        low, high: quartiles of those ratios.
        best: its least time over the baseline's least: what a loaded machine disturbs least.
        milliseconds: median time.
    """

    ratio: float
    low: float
    high: float
    best: float
    milliseconds: float


def measure(
    candidates: Mapping[str, Callable[[], object]],
    baseline: str,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Times of all candidates, one of which is the baseline, by a clock in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for call in candidates.values():
        call()
    for _ in range(rounds):
        for name, call in candidates.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return {name: _timing(times, seconds[baseline]) for name, times in seconds.items()}


def _timing(times: list[float], baseline: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(times, baseline, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Timing(
        ratio=middle,
        low=low,
        high=high,
        best=min(times) / min(baseline),
        milliseconds=statistics.median(times) * 1e3,
    )
