"""Alarms on the loss: it is not finite, it spikes, or it rises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from .._finding import Finding
from ._curve import Past
from ._latch import Latches
from ._thresholds import Thresholds

#: Where a loss has come close to zero its noise is no longer a share of it: shares are taken of at least this part of
#: the highest median that there was.
_LEAST = 0.25


class LossAlarm:
    """A spike in one step, and a rise that several steps confirm.

    Both are judged by the median m of the last 40 ordinary steps and their deviation s = 1.4826 MAD. A spike is a loss
    above m by 12 s and by a quarter of m; a rise is a mean of the last 8 (the highest and the lowest left out) above m
    by 5 s / sqrt(8), which is 5 standard deviations of such a mean, and by 4 % of m. What is too high does not enter
    the past that it is compared with, for at most as many steps as that is long: then the new level is believed.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        at = thresholds
        self._at, self._latches = at, Latches(at.rearm)
        self._past, self._recent = Past(at.window), Past(at.smoothing)
        self._highest, self._apart = 0.0, 0

    def step(self, step: int, loss: float) -> list[Finding]:
        """The loss of a step, applied or not."""
        is_finite = math.isfinite(loss)
        if self._latches.tells("loss not finite", not is_finite):
            return [_not_finite(step, loss)]
        if not is_finite:
            return []
        oldest = self._recent.values[0] if self._recent.is_full else loss
        self._recent.add(loss)
        if not self._past.is_full:
            self._past.add(loss)
            return []
        middle = self._past.middle()
        self._highest = max(self._highest, abs(middle))
        high = [told for told in self._judged(loss, middle) if told[1] > told[2]]
        # A spike and the rise that it is the beginning of are one event.
        is_new = self._latches.tells("loss", bool(high))
        self._admit(oldest, loss, is_apart=bool(high))
        return [self._risen(step, *high[0], middle)] if is_new else []

    def _judged(self, loss: float, middle: float) -> list[tuple[str, float, float]]:
        """Name, value and highest ordinary value of what is judged."""
        at, deviation = self._at, self._past.deviation()
        share = max(abs(middle), _LEAST * self._highest)
        spike = middle + max(at.loss_spike_mad * deviation, at.loss_spike_share * share)
        rise = middle + max(at.loss_mad * deviation / math.sqrt(at.smoothing), at.loss_share * share)
        recent = sorted(self._recent.values)
        smooth = fmean(recent[1:-1] if len(recent) > 2 else recent)
        judged = [("loss spike", loss, spike)]
        return [*judged, ("loss rise", smooth, rise)] if self._recent.is_full else judged

    def _admit(self, oldest: float, loss: float, *, is_apart: bool) -> None:
        self._apart = self._apart + 1 if is_apart else 0
        if not is_apart:
            self._past.add(oldest)  # those since wait, lest the beginning of a rise hide the rest of it
        elif self._apart > self._at.window:
            self._past.add(loss)

    def _risen(self, step: int, name: str, value: float, limit: float, middle: float) -> Finding:
        what = "the loss is" if name == "loss spike" else f"the mean loss of {self._at.smoothing} steps is"
        return Finding(
            step=step,
            name=name,
            severity="warning",
            message=f"{what} {value:.4g}, {value - middle:.3g} above its median {middle:.4g}",
            evidence={"loss": value, "median": middle, "limit": limit},
            threshold=f"above {limit:.4g}, from the last {self._at.window} ordinary steps",
            remedy="look at this step's batch and learning rate; if it does not come back, go back to a checkpoint "
            "before it and leave these batches out",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {
            "past": list(self._past.values),
            "recent": list(self._recent.values),
            "highest": self._highest,
            "apart": self._apart,
            "told": self._latches.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._past.values.extend(state["past"])
        self._recent.values.extend(state["recent"])
        self._highest, self._apart = float(state["highest"]), int(state["apart"])
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
