"""Which phase of a recipe holds, and the change from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..nn import Audit, Conversion
from ..specs import Recipe
from ._phase_audit import PhaseAudit
from ._widening import Widening


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
        self._recipe, self._total = recipe, total_steps
        self._begun: dict[str, int] = {}
        self._highest: dict[str, float] = {}  # learning rates so far
        self._now = recipe.at(0, total_steps)
        self._audit = PhaseAudit(conversion)
        self._widening = Widening(conversion, recipe.compute_dtype)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which phases the run ends before."""
        total = self._total
        starts = [] if total is None else [phase.begins(total) for phase in self._recipe.phases]
        return tuple(
            f"recipe {self._recipe.name}: the phase from step {start} on never begins, for the run has {total} steps"
            for start in starts
            if total is not None and start is not None and start >= total
        )

    def reach(self, applied: int) -> list[str]:
        """Bring the model to the rules that hold after so many applied steps; say what changed."""
        if not self._recipe.phases:
            return []
        wanted = self._recipe.at(applied, self._total, self._begun)
        if wanted.rules == self._now.rules:
            return []
        self._now = wanted
        wider = self._widening.apply(wanted)
        self._audit.begin(applied)
        begun = f"recipe {self._recipe.name}: from step {applied} on the rules of a later phase hold"
        return [begun, *(f"wider than in that phase: {message}" for _, message in wider)]

    def signal(self, when: str, applied: int) -> list[str]:
        """What a phase may wait for has come, after so many applied steps; only the first time counts."""
        if when in self._begun or all(phase.when != when for phase in self._recipe.phases):
            return []
        self._begun[when] = applied
        return self.reach(applied)

    def saw_rates(self, rates: Mapping[str, float], applied: int) -> list[str]:
        """The learning rates of an applied step, by optimizer: a fall below the highest so far begins a decay."""
        falls = any(rate < self._highest.get(name, rate) for name, rate in rates.items())
        for name, rate in rates.items():
            self._highest[name] = max(rate, self._highest.get(name, rate))
        return self.signal("decay", applied) if falls else []

    def waits_for(self, when: str) -> bool:
        """Whether a phase begins with what has not come yet."""
        return when not in self._begun and any(phase.when == when for phase in self._recipe.phases)

    def widen(self, sites: Iterable[str], to: str | None, applied: int) -> list[tuple[str, str, str]]:
        """Give some sites wider casts from now on, in later phases too.

        Args:
            sites: such as ``"blocks.3.fc (grad_output)"``; without a role, all three.
            to: ``"fp8"``, ``"bf16"`` or ``"compute"``; ``None``: the next step of each.
            applied: applied steps so far.

        Returns:
            Names of events, their sites and messages.

        Raises:
            ValueError: an unknown site or step.
        """
        before = self._widening.state()
        told = [("not widened", site, message) for site, message in self._widening.ask(sites, to)]
        after = self._widening.state()
        if after == before:
            return told
        changed = {site for site, roles in after.items() if before.get(site) != roles}
        wider = self._widening.apply(self._now)
        self._audit.begin(applied)
        return [*(("widened", site, message) for site, message in wider if site in changed), *told]

    def narrow(self) -> tuple[str, ...]:
        """Sites that ``widen`` would make wider now."""
        return self._widening.narrow()

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to know beside its step: which phases were begun by a signal, and what is wider."""
        highest = dict(self._highest)
        return {"begun": dict(self._begun), "highest": highest, "widened": self._widening.state()}

    def load(self, state: Mapping[str, Any], applied: int) -> None:
        """Continue from a ``state()`` after so many applied steps."""
        wider = self._widening.state()
        self._begun = {name: int(step) for name, step in state.get("begun", {}).items()}
        self._highest = {name: float(rate) for name, rate in state.get("highest", {}).items()}
        self._widening.load(state.get("widened", {}))
        wanted = self._recipe.at(applied, self._total, self._begun)
        if wanted.rules != self._now.rules or wider != self._widening.state():
            self._now = wanted
            self._widening.apply(wanted)
            self._audit.begin(applied)

    def measure_next_step(self, applied: int) -> None:
        """Measure the step after so many applied ones."""
        self._audit.begin(applied)

    def audit(self) -> Audit:
        """What the GEMMs of the phase's first step ran in."""
        return self._audit.audit()
