"""Seconds of a call on a machine whose speed varies: each sample beside a piece of work that is always the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

_SAMPLE = 3e-4
_TICK = 1e-7
_REFERENCES = 30
_SMALL = 24


class Stopwatch:
    """Measures calls in multiples of a reference, which multiplies, adds and makes small calls, and tells seconds.

    What else the machine does, and how fast it clocks, slows the reference beside a sample as it slows the sample: the
    figures are those of one speed, at which the reference takes so long.

    Args:
        samples: of each call, of which the median is taken.
        clock: seconds; by default with one thread the process's own time, which leaves out what other work takes.
        reference: seconds of the reference at the speed that is told; by default its lower quartile now.

    Example:
        >>> watch = Stopwatch(samples=3)
        >>> short, long = watch.seconds(lambda: sum(range(1000)), lambda: sum(range(100000)))
        >>> short < long
        True
    """

    def __init__(
        self, *, samples: int = 9, clock: Callable[[], float] | None = None, reference: float | None = None
    ) -> None:
        alone = torch.get_num_threads() == 1
        self._samples, self._clock = samples, clock or (time.process_time if alone else time.perf_counter)
        self._a, self._b, self._c = torch.ones(192, 192), torch.ones(1 << 16), torch.ones(1)
        found = statistics.quantiles([self._reference() for _ in range(_REFERENCES)], n=4)[0]
        self.reference = found if reference is None else reference

    def seconds(self, *calls: Callable[[], object]) -> list[float]:
        """Of each call, warm; they take turns, so that what disturbs one disturbs the others."""
        for call in calls:
            call()
        once = [max(self._timed(call, 1), _TICK) for call in calls]
        times = [max(1, round(_SAMPLE / seconds)) for seconds in once]
        rows = [self._round(calls, times) for _ in range(self._samples)]
        return [statistics.median([row[index] for row in rows]) for index in range(len(calls))]

    def _round(self, calls: tuple[Callable[[], object], ...], times: list[int]) -> list[float]:
        """Each call's seconds at the reference's speed."""
        row: list[float] = []
        before = self._reference()
        for call, count in zip(calls, times, strict=True):
            seconds = self._timed(call, count) / count
            after = self._reference()
            row.append(max(seconds, _TICK) * 2 * self.reference / (before + after))
            before = after
        return row

    def _reference(self) -> float:
        self._work()  # whatever ran before has left its operands in no cache
        return max(self._timed(self._work, 1), _TICK)

    def _work(self) -> None:
        torch.mm(self._a, self._a)
        torch.add(self._b, self._b)
        for _ in range(_SMALL):
            torch.add(self._c, self._c)

    def _timed(self, call: Callable[[], object], times: int) -> float:
        start = self._clock()
        for _ in range(times):
            call()
        return self._clock() - start
