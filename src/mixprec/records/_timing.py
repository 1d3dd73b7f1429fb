"""What steps took: the middle, the slowest, the throughput over time, and how well it repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ._paired import Gap
from ._types import StepRecord

#: The first steps measure memory and warm caches; no time counts them.
UNTIMED_STEPS = 3
#: Parts of a run whose throughput is told one after another.
PARTS = 10


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The times of a recipe's steps, the first three of each run left out.

    Attributes:
        steps: how many were timed, over all seeds.
        p5: what 5 % of the steps keep below [s]; ``None`` for fewer than 20 steps.
        p95: what 95 % of the steps keep below [s]; ``None`` for fewer than 20 steps.
        p99: the same of 99 %; ``None`` for fewer than 100 steps.
        interquartile: distance of the quartiles over the median; the median of the seeds.
        split_half: how far the medians of a run's first and second half differ, over the whole's; the largest of the
            seeds. That much a recipe may seem to gain or lose that does neither. ``None`` for fewer than 8 steps.
        tokens_per_second: all tokens over all seconds; ``None`` where the workload does not count them.
        throughput: tokens (without them, steps) per second in each tenth of the run, medians over seeds; empty for
            fewer than ten steps.
        per_seed: median seconds of a step.
        ratios: those over the baseline's, of the seeds that both have.

    Example:
        >>> timing = Timing(steps=30, per_seed={0: 0.1, 1: 0.1, 2: 0.11}, ratios={0: 0.5, 1: 0.5, 2: 0.5})
        >>> [round(bound, 3) for bound in timing.ratio_interval], [round(bound, 3) for bound in timing.interval]
        ([0.5, 0.5], [0.089, 0.118])
    """

    steps: int
    p5: float | None = None
    p95: float | None = None
    p99: float | None = None
    interquartile: float | None = None
    split_half: float | None = None
    tokens_per_second: float | None = None
    throughput: tuple[float, ...] = ()
    per_seed: Mapping[int, float] = field(default_factory=dict[int, float])
    ratios: Mapping[int, float] = field(default_factory=dict[int, float])

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the seconds of a step, over seeds (Student's t); ``None`` below two."""
        return Gap(per_seed=self.per_seed).interval

    @property
    def ratio_interval(self) -> tuple[float, float] | None:
        """95 % interval of the ratio to the baseline's, over seeds (Student's t of logarithms); ``None`` below two."""
        logarithms = Gap(per_seed={seed: math.log(ratio) for seed, ratio in self.ratios.items() if ratio > 0}).interval
        return None if logarithms is None else (math.exp(logarithms[0]), math.exp(logarithms[1]))


def time_steps(
    steps: Mapping[int, Mapping[int, StepRecord]], baseline: Mapping[int, Mapping[int, StepRecord]]
) -> Timing | None:
    """The timing of a recipe.

    Args:
        steps: by seed and step.
        baseline: the same of the baseline.

    Returns:
        ``None`` where no step was timed.
    """
    timed = _timed(steps)
    if not timed:
        return None
    seconds = {seed: [record.seconds for record in records] for seed, records in timed.items()}
    middle = {seed: median(values) for seed, values in seconds.items()}
    reference = {seed: median(record.seconds for record in records) for seed, records in _timed(baseline).items()}
    pooled = sorted(value for values in seconds.values() for value in values)
    halves = [_split_half(values) for values in seconds.values() if len(values) >= 8]
    return Timing(
        steps=len(pooled),
        p5=percentile(pooled, 0.05) if len(pooled) >= 20 else None,
        p95=percentile(pooled, 0.95) if len(pooled) >= 20 else None,
        p99=percentile(pooled, 0.99) if len(pooled) >= 100 else None,
        interquartile=median(map(_interquartile, seconds.values())),
        split_half=max(halves, default=None),
        tokens_per_second=_throughput([record for records in timed.values() for record in records], tokens_only=True),
        throughput=_over_time(timed.values()),
        per_seed=middle,
        ratios={seed: value / reference[seed] for seed, value in middle.items() if reference.get(seed)},
    )


def _timed(steps: Mapping[int, Mapping[int, StepRecord]]) -> dict[int, list[StepRecord]]:
    found = {
        seed: [record for step, record in own.items() if step >= UNTIMED_STEPS and math.isfinite(record.seconds)]
        for seed, own in steps.items()
    }
    return {seed: records for seed, records in found.items() if records}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value of a rising sequence that at least this share of it keeps to (nearest rank).

    Example:
        >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0], 0.99)
        (2.0, 1.0)
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _interquartile(values: Sequence[float]) -> float:
    ordered, middle = sorted(values), median(values)
    return (percentile(ordered, 0.75) - percentile(ordered, 0.25)) / middle if middle else 0.0


def _split_half(values: Sequence[float]) -> float:
    half, middle = len(values) // 2, median(values)
    return abs(median(values[:half]) - median(values[half:])) / middle if middle else 0.0


def _throughput(records: Sequence[StepRecord], *, tokens_only: bool) -> float | None:
    seconds = math.fsum(record.seconds for record in records)
    tokens = [record.tokens for record in records if record.tokens is not None]
    if not seconds or (tokens_only and len(tokens) < len(records)):
        return None
    return (sum(tokens) if len(tokens) == len(records) else len(records)) / seconds


def _over_time(runs: Iterable[Sequence[StepRecord]]) -> tuple[float, ...]:
    long = [records for records in runs if len(records) >= PARTS]
    parts: list[float] = []
    for part in range(PARTS if long else 0):
        found = [
            _throughput(records[part * len(records) // PARTS : (part + 1) * len(records) // PARTS], tokens_only=False)
            for records in long
        ]
        parts.append(median([value for value in found if value is not None] or [0.0]))
    return tuple(parts)
