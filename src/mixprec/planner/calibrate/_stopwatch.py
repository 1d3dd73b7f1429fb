"""Seconds of a call: the median of some samples, each long enough for the clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

_SAMPLE = 3e-4
_TICK = 1e-7


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """How carefully to measure.

    Attributes:
        samples: of which the lower quartile is taken: what other work on the machine disturbs little.
        clock: seconds; with one thread, the process's own time leaves out what other work takes.
    """

    samples: int = 7
    clock: Callable[[], float] = time.perf_counter

    def seconds(self, call: Callable[[], object]) -> float:
        """Of one call, warm."""
        call()
        once = max(self._timed(call, 1), _TICK)
        times = max(1, round(_SAMPLE / once))
        return self._typical([self._timed(call, times) / times for _ in range(self.samples)])

    def pair(self, first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
        """Of two calls that take turns, so that what disturbs one disturbs the other."""
        first()
        second()
        once = max(self._timed(first, 1), self._timed(second, 1), _TICK)
        times = max(1, round(_SAMPLE / once))
        rounds = [(self._timed(first, times) / times, self._timed(second, times) / times) for _ in range(self.samples)]
        return self._typical([a for a, _ in rounds]), self._typical([b for _, b in rounds])

    @staticmethod
    def _typical(seconds: list[float]) -> float:
        return statistics.quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]

    def _timed(self, call: Callable[[], object], times: int) -> float:
        start = self.clock()
        for _ in range(times):
            call()
        return self.clock() - start
