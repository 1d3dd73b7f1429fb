"""Whether a forward pass has begun whose backward pass is still to come."""

from __future__ import annotations

from ..nn import Conversion
from ._statistics import StatisticsKeeper


class InFlight:
    """Compares where forward passes stand now with where they stood after the last backward pass.

    Args:
        conversion: counts passes of the model and of its parts.
        statistics: counts calls of what changes buffers.
    """

    def __init__(self, conversion: Conversion, statistics: StatisticsKeeper) -> None:
        self._conversion, self._statistics = conversion, statistics
        self._retains = False
        self._after = self._now()

    def end_backward(self, *, retains: bool) -> None:
        """A backward pass is over; ``retains``: its graph can be gone through again."""
        self._retains = self._retains or retains
        self._after = self._now()

    def end_step(self) -> None:
        """A step was taken or skipped: no graph from before it counts."""
        self._retains = False

    def is_nothing(self) -> bool:
        """Whether no forward pass began since, and no graph was retained."""
        return not self._retains and self._after == self._now()

    def _now(self) -> tuple[int, ...]:
        return (*self._conversion.position(), self._statistics.calls)
