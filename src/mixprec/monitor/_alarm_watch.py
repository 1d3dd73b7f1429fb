"""Alarms as one who watches a loop: fed with each step, and with the records of sampled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..records import Record, StatisticsRecord, UpdateRecord
from ._finding import Finding
from ._step_records import least_scale, sum_of, turn_of
from ._step_watch import QuietWatch, StepFacts
from .alarms import Alarms, Thresholds


class AlarmWatch(QuietWatch):
    """Holds losses, norms, scales and what was sampled against thresholds.

    Where optimizers step by turns (a GAN's two), or on losses of several names, each has curves of its own: the loss of
    one says nothing of another's. ``hear`` is to be given the records of other watches: what they rouse is told at the
    end of the step.

    Args:
        thresholds: of the alarms.
        is_scaled: whether losses are scaled at all.
    """

    def __init__(self, thresholds: Thresholds, *, is_scaled: bool) -> None:
        self._thresholds, self._is_scaled = thresholds, is_scaled
        self._sampled = Alarms(thresholds)
        self._curves: dict[str, Alarms] = {}
        self._found: list[Finding] = []

    def hear(self, records: Sequence[Record]) -> None:
        """Records that other watches made."""
        self._found += self._sampled.statistics(r for r in records if isinstance(r, StatisticsRecord))
        self._found += self._sampled.updates(r for r in records if isinstance(r, UpdateRecord))

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The alarms of an applied step."""
        return self._look(facts, applied=True)

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The alarms of a skipped step."""
        return self._look(facts, applied=False)

    def state_dict(self) -> dict[str, Any]:
        """What they remember, and what is still to be told, as JSON can hold it."""
        return {
            "sampled": self._sampled.state_dict(),
            "curves": {name: alarms.state_dict() for name, alarms in self._curves.items()},
            "found": [asdict(finding) for finding in self._found],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``, whatever was seen before."""
        self._sampled = self._loaded(state["sampled"])
        self._curves = {name: self._loaded(curves) for name, curves in state["curves"].items()}
        self._found = [Finding(**found) for found in state["found"]]

    def _loaded(self, state: Mapping[str, Any]) -> Alarms:
        alarms = Alarms(self._thresholds)
        alarms.load_state_dict(state)
        return alarms

    def _look(self, facts: StepFacts, *, applied: bool) -> tuple[Finding, ...]:
        name = turn_of(facts.optimizers, facts.losses)
        if name not in self._curves:
            self._curves[name] = Alarms(self._thresholds)
        curves = self._curves[name]
        found = curves.step(
            step=facts.step,
            loss=sum_of(facts.losses),
            grad_norm=facts.grad_norm,
            loss_scale=least_scale(facts.losses, facts.loss_scales) if self._is_scaled else None,
            applied=applied,
        )
        sampled, self._found = self._found, []
        return (*found, *sampled)
