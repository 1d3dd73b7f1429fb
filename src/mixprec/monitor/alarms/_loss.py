"""Alarms on the loss: it is not finite, it jumps, or it stays up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._finding import Finding
from ._curve import Past
from ._latch import Latches
from ._thresholds import Thresholds


class LossAlarm:
    """A jump in one step, and a rise that a running median confirms.

    A rise is ``median of the last 5 - median of the 20 before > max(6 * 1.4826 * MAD, 5 % of the median)``; a jump is
    one step beyond twice as many deviations and a quarter of the median. While either lasts, the values do not enter
    the past that they are compared with, for at most as many steps as that past is long: a new level is then believed.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._at = thresholds
        self._past, self._recent = Past(thresholds.window), Past(thresholds.smoothing)
        self._latches, self._apart = Latches(thresholds.rearm), 0

    def step(self, step: int, loss: float) -> list[Finding]:
        """The loss of a step, applied or not."""
        if not math.isfinite(loss):
            return [self._not_finite(step, loss)] if self._latches.tells("loss not finite", True) else []
        self._latches.tells("loss not finite", False)
        self._recent.add(loss)
        if self._past.is_full:
            return self._compared(step, loss)
        self._past.add(loss)
        return []

    def _compared(self, step: int, loss: float) -> list[Finding]:
        middle, deviation, at = self._past.middle(), self._past.deviation(), self._at
        lasting = self._recent.middle() - middle
        limits = {
            "loss jump": (loss - middle, max(at.loss_jump_mad * deviation, at.loss_jump_share * abs(middle))),
            "loss spike": (lasting, max(at.loss_mad * deviation, at.loss_share * abs(middle))),
        }
        is_on = {name: rise > limit for name, (rise, limit) in limits.items()}
        found = [
            self._risen(step, name, loss, middle, limits[name][1])
            for name, on in is_on.items()
            if self._latches.tells(name, on)
        ]
        self._admit(loss, is_apart=any(is_on.values()))
        return found

    def _admit(self, loss: float, *, is_apart: bool) -> None:
        self._apart = self._apart + 1 if is_apart else 0
        if not is_apart or self._apart > self._at.window:
            self._past.add(loss)

    def _risen(self, step: int, name: str, loss: float, middle: float, limit: float) -> Finding:
        recent = self._recent.middle()
        what = f"the loss is {loss:.4g}" if name == "loss jump" else f"the loss stays at {recent:.4g}"
        return Finding(
            step=step,
            name=name,
            severity="warning",
            message=f"{what}, {(loss if name == 'loss jump' else recent) - middle:.3g} above its median {middle:.4g}",
            evidence={"loss": loss, "running median": recent, "median": middle, "limit": middle + limit},
            threshold=f"above {middle + limit:.4g}, from the last {self._at.window} ordinary steps",
            remedy="look at this step's batch and learning rate; if it does not come back, go back to a checkpoint "
            "before it and leave these batches out",
        )

    def _not_finite(self, step: int, loss: float) -> Finding:
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

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {
            "past": list(self._past.values),
            "recent": list(self._recent.values),
            "apart": self._apart,
            "told": self._latches.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._past.values.extend(state["past"])
        self._recent.values.extend(state["recent"])
        self._apart = int(state["apart"])
        self._latches.load(state["told"])
