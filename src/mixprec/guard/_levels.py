"""The ordinary level of a loss or a gradient norm, and what is far above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from ..monitor.alarms import Past, Thresholds
from ._trigger import Trigger

#: Near zero the noise of a loss is no share of it: shares are taken of at least this part of its highest median.
_LEAST = 0.25


class LossLevel:
    """Judges each loss by the median of the last ordinary ones, with the alarms' numbers.

    An alarm tells a beginning once; a guard has to know of each step whether it is ordinary, and of a step that is
    then left out nothing may be remembered. What is too high does not enter the past, for as many steps as it is long:
    then the new level is believed.

    Example:
        >>> level = LossLevel("loss", Thresholds())
        >>> for i in range(50):
        ...     level.admit(2.0 + 0.01 * (i % 3))
        >>> [trigger.name for trigger in level.judge(9.0)], level.judge(2.1)
        (['loss spike'], [])
    """

    def __init__(self, name: str, thresholds: Thresholds) -> None:
        self._name, self._at = name, thresholds
        self._past, self._recent = Past(thresholds.window), Past(thresholds.smoothing)
        self._highest, self._apart = 0.0, 0

    def judge(self, loss: float) -> list[Trigger]:
        """What a loss is that is not ordinary; nothing is remembered."""
        if not math.isfinite(loss):
            return [Trigger(name="loss not finite", evidence={self._name: loss})]
        if not self._past.is_full:
            return []
        middle, deviation = self._past.middle(), self._past.deviation()
        share = max(abs(middle), _LEAST * self._highest)
        spike = middle + max(self._at.loss_spike_mad * deviation, self._at.loss_spike_share * share)
        if loss > spike:
            return [self._told("loss spike", loss, middle, spike)]
        recent = sorted([*self._recent.values, loss][-self._at.smoothing :])
        rise = middle + max(self._at.loss_mad * deviation / math.sqrt(self._at.smoothing), self._at.loss_share * share)
        mean = fmean(recent[1:-1] if len(recent) > 2 else recent)
        if len(recent) == self._at.smoothing and mean > rise:
            return [self._told("loss rise", mean, middle, rise)]
        return []

    def admit(self, loss: float) -> None:
        """Remember the loss of an applied step."""
        if not math.isfinite(loss):
            return
        is_apart = bool(self.judge(loss))
        oldest = self._recent.values[0] if self._recent.is_full else loss
        self._recent.add(loss)
        if not self._past.is_full:
            self._past.add(loss)
            return
        self._highest = max(self._highest, abs(self._past.middle()))
        self._apart = self._apart + 1 if is_apart else 0
        if not is_apart:
            self._past.add(oldest)  # those since wait, lest the beginning of a rise hide the rest of it
        elif self._apart > self._at.window:
            self._past.add(loss)

    def _told(self, name: str, value: float, middle: float, limit: float) -> Trigger:
        return Trigger(name=name, evidence={self._name: value, "median": middle, "limit": limit})

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        past, recent = list(self._past.values), list(self._recent.values)
        return {"past": past, "recent": recent, "highest": self._highest, "apart": self._apart}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        for past, values in ((self._past, state["past"]), (self._recent, state["recent"])):
            past.values.clear()
            past.values.extend(values)
        self._highest, self._apart = float(state["highest"]), int(state["apart"])


class NormLevel:
    """Judges each gradient norm by the median of the logarithms of the last ones, with the alarms' numbers."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._past = thresholds, Past(thresholds.window)

    def judge(self, norm: float) -> list[Trigger]:
        """What a norm is that is not ordinary; nothing is remembered."""
        if not self._past.is_full or not 0.0 < norm < math.inf:
            return []
        middle, deviation = self._past.middle(), self._past.deviation()
        limit = middle + max(math.log(self._at.norm_spike), self._at.norm_mad * deviation)
        if math.log(norm) <= limit:
            return []
        evidence = {"gradient norm": norm, "median": math.exp(middle), "limit": math.exp(limit)}
        return [Trigger(name="gradient spike", evidence=evidence)]

    def admit(self, norm: float) -> None:
        """Remember the norm of an applied step."""
        if 0.0 < norm < math.inf:
            self._past.add(math.log(norm))

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"past": list(self._past.values)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._past.values.clear()
        self._past.values.extend(state["past"])
