"""Which phase of a recipe holds, and the change from one to the next."""

from __future__ import annotations

from ..nn import Audit, Conversion
from ..specs import Recipe
from ._phase_audit import PhaseAudit


class PhaseKeeper:
    """Gives the model the rules of the phase that has begun; weights, moments, scales and histories are carried over.

    Args:
        recipe: whose phases they are.
        conversion: of the model.
        total_steps: length of the run.

    Raises:
        ValueError: a phase is a share of the run, and its length is not known.
    """

    def __init__(self, recipe: Recipe, conversion: Conversion, total_steps: int | None) -> None:
        if recipe.needs_total_steps and total_steps is None:
            raise ValueError(
                f"recipe {recipe.name} has a phase that is a share of the run: say its length, prepare(..., "
                "total_steps=10_000)"
            )
        self._recipe, self._conversion, self._total = recipe, conversion, total_steps
        self._now = recipe.at(0, total_steps)
        self._audit = PhaseAudit(conversion)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which phases the run ends before."""
        total = self._total
        starts = [] if total is None else [phase.begins(total) for phase in self._recipe.phases]
        return tuple(
            f"recipe {self._recipe.name}: the phase from step {start} on never begins, for the run has {total} steps"
            for start in starts
            if total is not None and start >= total
        )

    def reach(self, applied: int) -> list[str]:
        """Bring the model to the rules that hold after so many applied steps; say what changed."""
        if not self._recipe.phases:
            return []
        wanted = self._recipe.at(applied, self._total)
        if wanted.rules == self._now.rules:
            return []
        self._now = wanted
        self._conversion.apply_rules(wanted)
        self._audit.begin(applied)
        return [f"recipe {self._recipe.name}: from step {applied} on the rules of a later phase hold"]

    def measure_next_step(self, applied: int) -> None:
        """Measure the step after so many applied ones."""
        self._audit.begin(applied)

    def audit(self) -> Audit:
        """What the GEMMs of the phase's first step ran in."""
        return self._audit.audit()
