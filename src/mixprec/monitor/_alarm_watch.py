"""Alarms as one who watches a loop: fed with each step, and with the records of sampled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..records import Record, StatisticsRecord, UpdateRecord
from ._finding import Finding
from ._step_watch import QuietWatch, StepFacts
from .alarms import Alarms


class AlarmWatch(QuietWatch):
    """Holds losses, norms, scales and what was sampled against thresholds.

    ``hear`` is to be given the records of other watches: what they rouse is told at the end of the step.

    Args:
        alarms: to be fed.
        is_scaled: whether losses are scaled at all.
    """

    def __init__(self, alarms: Alarms, *, is_scaled: bool) -> None:
        self.alarms, self._is_scaled = alarms, is_scaled
        self._found: list[Finding] = []

    def hear(self, records: Sequence[Record]) -> None:
        """Records that other watches made."""
        self._found += self.alarms.statistics(r for r in records if isinstance(r, StatisticsRecord))
        self._found += self.alarms.updates(r for r in records if isinstance(r, UpdateRecord))

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The alarms of an applied step."""
        return self._look(facts, applied=True)

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The alarms of a skipped step."""
        return self._look(facts, applied=False)

    def _look(self, facts: StepFacts, *, applied: bool) -> tuple[Finding, ...]:
        scales = [facts.loss_scales[name] for name, _ in facts.losses if name in facts.loss_scales]
        found = self.alarms.step(
            step=facts.step,
            loss=math.fsum(loss for _, loss in facts.losses) if facts.losses and _are_finite(facts) else _first(facts),
            grad_norm=facts.grad_norm,
            loss_scale=min(scales or facts.loss_scales.values(), default=None) if self._is_scaled else None,
            applied=applied,
        )
        sampled, self._found = self._found, []
        return (*found, *sampled)


def _are_finite(facts: StepFacts) -> bool:
    return all(math.isfinite(loss) for _, loss in facts.losses)


def _first(facts: StepFacts) -> float | None:
    """The first loss that is not finite; ``None`` where no loss is known."""
    return next((loss for _, loss in facts.losses if not math.isfinite(loss)), None)
