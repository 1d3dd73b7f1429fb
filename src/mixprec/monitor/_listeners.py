"""Who hears what watchers have measured and found: the run folder, the flight recorder, a user's callback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ..records import FindingRecord, Record
from ._finding import Finding

_KEPT_FINDINGS = 1000

#: Takes records: one call for all of a step.
Listener = Callable[[Sequence[Record]], None]


class Listeners:
    """Passes records on to each of several listeners, and keeps the last findings.

    Args:
        recipe: name that the records of findings tell.
        seed: that they tell.

    Example:
        >>> listeners, heard = Listeners(recipe="bf16", seed=0), []
        >>> listeners.add(heard.extend)
        >>> listeners.find([Finding(step=7, name="loss spike", severity="warning", message="the loss is 9.1")])
        >>> heard[0].name, len(listeners.findings)
        ('loss spike', 1)
    """

    def __init__(self, *, recipe: str, seed: int) -> None:
        self.recipe, self.seed = recipe, seed
        self._listeners: list[Listener] = []
        self._findings: deque[Finding] = deque(maxlen=_KEPT_FINDINGS)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The last 1,000, oldest first."""
        return tuple(self._findings)

    def add(self, listener: Listener) -> None:
        """From now on ``listener`` hears too."""
        self._listeners.append(listener)

    def hear(self, records: Sequence[Record]) -> None:
        """Something was measured."""
        if records:
            for listener in self._listeners:
                listener(records)

    def find(self, findings: Sequence[Finding]) -> None:
        """Something was found."""
        self._findings.extend(findings)
        records: list[FindingRecord] = [finding.record(self.recipe, self.seed) for finding in findings]
        self.hear(records)
