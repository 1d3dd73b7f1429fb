"""Alarms on the gradient norm: a spike, and a slow drift upward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._finding import Finding
from ._curve import Past
from ._latch import Latches
from ._levels import High, NormLevel
from ._thresholds import Thresholds

#: Steps in a row whose gradients are all zero.
_ZEROS = 5


class NormAlarm:
    """Compares each norm with its ordinary level, and the median of many with the lowest such median that there was."""

    def __init__(self, thresholds: Thresholds) -> None:
        at = thresholds
        self._at, self._latches, self._lowest = at, Latches(at.rearm), math.inf
        self._level, self._long, self._zeros = NormLevel(at), Past(at.drift_window), 0

    def step(self, step: int, norm: float) -> list[Finding]:
        """The gradient norm of an applied step."""
        self._zeros = self._zeros + 1 if norm == 0.0 else 0
        if norm <= 0.0:
            is_on = self._latches.tells("gradient of zeros", self._zeros >= _ZEROS)
            return [self._gone(step)] if is_on else []
        self._latches.tells("gradient of zeros", False)
        found: list[Finding] = []
        high = self._level.judge(norm)
        if self._latches.tells("gradient spike", high is not None) and high is not None:
            found.append(self._spike(step, high))
        self._level.admit(norm)
        self._long.add(math.log(norm))
        if self._long.is_full:
            level = math.exp(self._long.middle())
            if self._latches.tells("gradient-norm drift", level > self._at.norm_drift * self._lowest):
                found.append(self._drift(step, level))
            self._lowest = min(self._lowest, level)
        return found

    def _gone(self, step: int) -> Finding:
        return Finding(
            step=step,
            name="gradient of zeros",
            severity="fault",
            message=f"every element of every gradient was zero in {_ZEROS} steps in a row: nothing is learnt",
            evidence={"gradient norm": 0.0, "steps": float(_ZEROS)},
            threshold=f"{_ZEROS} steps in a row",
            remedy="where the model computes in fp16, a larger loss scale (a dynamic one finds it): what is below 6e-8 "
            "vanishes; else look whether the loss reaches the parameters",
        )

    def _spike(self, step: int, high: High) -> Finding:
        norm, middle, limit = high.value, high.middle, high.limit
        return Finding(
            step=step,
            name="gradient spike",
            severity="warning",
            message=f"the gradient norm is {norm:.3g}, {norm / middle:.3g} times its median {middle:.3g}",
            evidence={"gradient norm": norm, "median": middle, "limit": limit},
            threshold=f"above {limit:.3g}, from the last {self._at.window} steps",
            remedy="look at this step's batch; clip_norm= bounds what one batch can do",
        )

    def _drift(self, step: int, middle: float) -> Finding:
        return Finding(
            step=step,
            name="gradient-norm drift",
            severity="warning",
            message=f"the gradient norm has drifted up to {middle:.3g}, {middle / self._lowest:.3g} times the lowest "
            f"level that it had, {self._lowest:.3g}",
            evidence={"median": middle, "lowest median": self._lowest},
            threshold=f"{self._at.norm_drift:g} times the lowest median of {self._at.drift_window} steps",
            remedy="a smaller learning rate, or formats with more mantissa bits in the layers whose gradients grow",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        lowest = self._lowest if math.isfinite(self._lowest) else None
        past, long = self._level.state(), list(self._long.values)
        told = self._latches.state()
        return {"past": past, "long": long, "lowest": lowest, "zeros": self._zeros, "told": told}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._level.load(state["past"])
        self._long.values.extend(state["long"])
        self._zeros = int(state["zeros"])
        self._lowest = math.inf if state["lowest"] is None else float(state["lowest"])
        self._latches.load(state["told"])
