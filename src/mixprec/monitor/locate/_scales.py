"""Whether an overflow at a loss scale is the dynamic scale's own doing, and which skipped steps deserve a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A scale that has fallen this far below one that steps were applied at is no probing any more.
_FALLEN = 2.0**4
#: In a row of skipped steps that began with an ordinary one, the next to be replayed.
_PATIENCE = 8


class ScaleHistory:
    """The loss scales that steps were applied and skipped at.

    A dynamic scale overflows by design: on its way down from its start, and each time that it has grown. Both show in
    a scale that no step was applied at yet, or not much smaller than the last that one was.
    """

    def __init__(self) -> None:
        self._applied: float | None = None  # of the last applied step
        self._skipped: list[float] = []  # since then
        self._was_ordinary = False

    def apply(self, scale: float) -> None:
        """A step was applied."""
        self._applied, self._skipped, self._was_ordinary = scale, [], False

    def skip(self, scale: float) -> None:
        """A step was skipped."""
        self._skipped.append(scale)

    def judge(self, *, is_ordinary: bool) -> None:
        """What a replay of the last skipped step has found."""
        self._was_ordinary = is_ordinary

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"applied": self._applied, "skipped": list(self._skipped), "was ordinary": self._was_ordinary}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._applied, self._skipped = state["applied"], list(state["skipped"])
        self._was_ordinary = bool(state["was ordinary"])

    @property
    def looks_ordinary(self) -> bool:
        """Whether the last skipped step may have been, if its pass is finite at a scale of 1."""
        if not self._skipped or self._is_static:
            return False
        return self._applied is None or self._skipped[-1] * _FALLEN > self._applied

    def deserves_replay(self, *, losses_are_finite: bool) -> bool:
        """Whether the last skipped step is to be replayed: the 1st, 2nd, 4th, ... of a row; of ordinary ones fewer."""
        count = len(self._skipped)
        is_power = count & (count - 1) == 0
        if self._was_ordinary and losses_are_finite:
            return is_power and count >= _PATIENCE
        return is_power or (self._was_ordinary and not losses_are_finite)

    @property
    def _is_static(self) -> bool:
        """Whether the scale has stood still through several skipped steps, so that nothing makes it smaller."""
        recent = self._skipped[-_PATIENCE:]
        return len(recent) == _PATIENCE and len(set(recent)) == 1
