"""Seconds of a call: the median of some samples, each long enough for the clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

_SAMPLE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """How carefully to measure.

    Attributes:
        samples: of which the lower quartile is taken: what other work on the machine disturbs little.
    """

    samples: int = 7

    def seconds(self, call: Callable[[], object]) -> float:
        """Of one call, warm."""
        call()
        once = _timed(call, 1)
        times = max(1, round(_SAMPLE / once))
        return self._typical([_timed(call, times) / times for _ in range(self.samples)])

    def pair(self, first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
        """Of two calls that take turns, so that what disturbs one disturbs the other."""
        first()
        second()
        once = max(_timed(first, 1), _timed(second, 1))
        times = max(1, round(_SAMPLE / once))
        rounds = [(_timed(first, times) / times, _timed(second, times) / times) for _ in range(self.samples)]
        return self._typical([a for a, _ in rounds]), self._typical([b for _, b in rounds])

    @staticmethod
    def _typical(seconds: list[float]) -> float:
        return statistics.quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]


def _timed(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - start
