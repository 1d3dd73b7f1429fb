"""All alarms of a run, fed with what a step, a sample of tensors or a sample of updates tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ...records import StatisticsRecord, UpdateRecord
from .._finding import Finding
from ._formats import FormatAlarm
from ._loss import LossAlarm
from ._norm import NormAlarm
from ._scale import ScaleAlarm
from ._thresholds import Thresholds
from ._weights import WeightAlarm


class Alarms:
    """Tells each event once; needs only numbers, so that a curve that was recorded can be judged as a running one.

    Memory is bounded: some tens of numbers, and sixteen for each tensor that statistics are taken of.

    Args:
        thresholds: from where on an alarm goes off.

    Example:
        >>> alarms = Alarms()
        >>> calm = [alarms.step(step=i, loss=2.0 + 0.01 * (i % 3), grad_norm=1.0) for i in range(50)]
        >>> [finding.name for finding in alarms.step(step=50, loss=9.0, grad_norm=50.0)]
        ['loss spike', 'gradient spike']
        >>> alarms.step(step=51, loss=9.1, grad_norm=50.0)
        ()
    """

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self.thresholds = Thresholds() if thresholds is None else thresholds
        self._loss, self._norm = LossAlarm(self.thresholds), NormAlarm(self.thresholds)
        self._scale = ScaleAlarm(self.thresholds)
        self._formats, self._weights = FormatAlarm(self.thresholds), WeightAlarm(self.thresholds)

    def step(
        self,
        *,
        step: int,
        loss: float | None = None,
        grad_norm: float | None = None,
        loss_scale: float | None = None,
        applied: bool = True,
    ) -> tuple[Finding, ...]:
        """One step.

        Args:
            step: applied steps before it.
            loss: unscaled; ``None`` where it is not known.
            grad_norm: unscaled, before clipping; ``None`` where it was not taken. That of a skipped step is left out.
            loss_scale: that the step ran under; ``None`` without one.
            applied: False for a skipped step.
        """
        found = [] if loss is None else self._loss.step(step, loss)
        if applied and grad_norm is not None and math.isfinite(grad_norm):
            found += self._norm.step(step, grad_norm)
        return (*found, *self._scale.step(step, loss_scale, applied=applied))

    def statistics(self, records: Iterable[StatisticsRecord]) -> tuple[Finding, ...]:
        """What formats did to the tensors of a sampled step."""
        return tuple(self._formats.look(records))

    def updates(self, records: Iterable[UpdateRecord]) -> tuple[Finding, ...]:
        """What a sampled step did to parameters."""
        return tuple(self._weights.look(records))

    def state_dict(self) -> dict[str, Any]:
        """What they remember, as JSON can hold it."""
        return {name: getattr(self, f"_{name}").state() for name in _PARTS}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``; into alarms that have seen nothing yet."""
        for name in _PARTS:
            getattr(self, f"_{name}").load(state[name])


_PARTS = ("loss", "norm", "scale", "formats", "weights")
