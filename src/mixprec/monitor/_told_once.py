"""What is found of several bad steps in a row is told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._finding import Finding
from ._step_watch import StepFacts


class ToldOnce:
    """Leaves out what was found before in the same row of bad steps.

    Optimizers that step by turns have rows of their own.

    Example:
        >>> facts = StepFacts(step=0, losses=(), grad_norm=0.0, norms={}, is_finite=False, scale=1.0, loss_scales={},
        ...     gradients={}, parameters={})
        >>> told, found = ToldOnce(), [Finding(step=0, name="bad input data", severity="fault", message="it is inf")]
        >>> len(told.new(facts, found)), len(told.new(facts, found))
        (1, 0)
    """

    def __init__(self) -> None:
        self._told: dict[str, set[tuple[str, str]]] = {}

    def new(self, facts: StepFacts, findings: Sequence[Finding]) -> list[Finding]:
        """Those of a bad step that were not found in its row before."""
        told = self._told.setdefault(_who(facts), set())
        new = [finding for finding in findings if (finding.name, finding.site) not in told]
        told |= {(finding.name, finding.site) for finding in findings}
        return new

    def clear(self, facts: StepFacts) -> None:
        """A good step has ended the row."""
        self._told.pop(_who(facts), None)

    def state_dict(self) -> dict[str, Any]:
        """What was found in rows that have not ended, as JSON can hold it."""
        return {who: sorted(map(list, told)) for who, told in self._told.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._told = {who: {(name, site) for name, site in told} for who, told in state.items()}


def _who(facts: StepFacts) -> str:
    return "+".join(facts.optimizers)
