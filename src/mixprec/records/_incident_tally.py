"""Incidents counted once each, although each is written several times."""

from __future__ import annotations

from dataclasses import dataclass

from ._types import IncidentRecord


@dataclass(frozen=True, kw_only=True)
class Tallied:
    """What a record of an incident adds to what was known.

    Attributes:
        is_new: whether its number comes for the first time.
        is_settled: whether its outcome is known now, and was not before.
        lost_steps: steps that it has cost since its last record.
        lost_seconds: seconds likewise.
        open: incidents of the run whose outcome is not known.
    """

    is_new: bool
    is_settled: bool
    lost_steps: int
    lost_seconds: float
    open: int

    @property
    def is_news(self) -> bool:
        """Whether somebody should be told: of a number, or of what came of it."""
        return self.is_new or self.is_settled


class IncidentTally:
    """Knows the incidents of runs by their numbers.

    Example:
        >>> from dataclasses import replace
        >>> seen = IncidentRecord(
        ...     recipe="fp8", seed=0, number=1, step=3, trigger="loss spike", site="", evidence={},
        ...     rung="rewind", action="back to step 2", lost_steps=1,
        ... )
        >>> tally = IncidentTally()
        >>> tally.take(seen).open, tally.take(replace(seen, outcome="recovered", lost_steps=3))
        (1, Tallied(is_new=False, is_settled=True, lost_steps=2, lost_seconds=0.0, open=0))
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], dict[int, IncidentRecord]] = {}

    def take(self, record: IncidentRecord) -> Tallied:
        """Take in one record."""
        own = self._known.setdefault((record.recipe, record.seed), {})
        before = own.get(record.number)
        own[record.number] = record
        was_open = before is None or before.outcome == "open"
        return Tallied(
            is_new=before is None,
            is_settled=was_open and record.outcome != "open",
            # What only grows stays so where a record takes something back.
            lost_steps=max(0, record.lost_steps - (0 if before is None else before.lost_steps)),
            lost_seconds=max(0.0, record.lost_seconds - (0.0 if before is None else before.lost_seconds)),
            open=sum(incident.outcome == "open" for incident in own.values()),
        )
