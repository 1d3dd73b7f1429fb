"""Alarms on the loss: it is not finite, it spikes, or it rises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._finding import Finding
from ._latch import Latches
from ._levels import High, LossLevel
from ._thresholds import Thresholds


class LossAlarm:
    """Tells once that a loss is not finite, or above its ordinary level (``LossLevel``)."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._latches, self._level = thresholds, Latches(thresholds.rearm), LossLevel(thresholds)

    def step(self, step: int, loss: float) -> list[Finding]:
        """The loss of a step, applied or not."""
        is_finite = math.isfinite(loss)
        if self._latches.tells("loss not finite", not is_finite):
            return [_not_finite(step, loss)]
        if not is_finite:
            return []
        is_known, high = self._level.is_known, self._level.admit(loss)
        # A spike and the rise that it is the beginning of are one event.
        is_new = is_known and self._latches.tells("loss", high is not None)
        return [self._risen(step, high)] if is_new and high is not None else []

    def _risen(self, step: int, high: High) -> Finding:
        what = "the loss is" if high.name == "loss spike" else f"the mean loss of {self._at.smoothing} steps is"
        return Finding(
            step=step,
            name=high.name,
            severity="warning",
            message=f"{what} {high.value:.4g}, {high.value - high.middle:.3g} above its median {high.middle:.4g}",
            evidence={"loss": high.value, "median": high.middle, "limit": high.limit},
            threshold=f"above {high.limit:.4g}, from the last {self._at.window} ordinary steps",
            remedy="look at this step's batch and learning rate; if it does not come back, go back to a checkpoint "
            "before it and leave these batches out",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {**self._level.state(), "told": self._latches.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._level.load(state)
        self._latches.load(state["told"])


def _not_finite(step: int, loss: float) -> Finding:
    kind = "NaN" if math.isnan(loss) else "inf" if loss > 0 else "-inf"
    return Finding(
        step=step,
        name="loss not finite",
        severity="fault",
        message=f"the loss is {kind}",
        evidence={"loss": loss},
        threshold="finite",
        remedy="session.locate() names the first operation that made it",
    )
