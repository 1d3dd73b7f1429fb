"""Nobody guards a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...records import IncidentRecord
from .._result import Event
from .._verdict import Verdict
from ._ruling import Ruling


class Unguarded:
    """Lets every step pass, and keeps what a guard of an earlier process has left for one that is still to come.

    Attributes:
        incidents: of the run, by number.
    """

    incidents: tuple[IncidentRecord, ...] = ()

    def __init__(self) -> None:
        self._left: dict[str, Any] = {}

    def before_update(self, verdict: Verdict, step: int) -> Ruling:
        """The gradients of a step are finite, and its update is not made."""
        del verdict, step
        return Ruling()

    def after_skip(self, verdict: Verdict, step: int, located: str) -> Ruling:
        """The gradients of a step are not finite, and it was skipped; ``located``: where that began."""
        del verdict, step, located
        return Ruling()

    def applied(self, ruling: Ruling, applied: int) -> list[Event]:
        """The step was applied: so many are."""
        del ruling, applied
        return []

    def act(self, ruling: Ruling, applied: int) -> None:
        """Do what was decided about a step that was not applied.

        Raises:
            RunStopped: the run ends.
        """
        del ruling, applied

    def hear_gap(self, gap: float, baseline: float) -> None:
        """A shadow was measured."""

    def state_dict(self) -> dict[str, Any]:
        """What a later process goes on with."""
        return self._left

    def load_state_dict(self, state: Mapping[str, Any], applied: int) -> None:
        """Go on after so many applied steps."""
        del applied
        self._left = dict(state)
