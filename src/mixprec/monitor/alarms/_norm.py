"""Alarms on the gradient norm: a spike, and a slow drift upward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._finding import Finding
from ._curve import Past
from ._latch import Latches
from ._thresholds import Thresholds


class NormAlarm:
    """Compares each norm with the median of the last ones, and that median with the lowest that there was."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._past, self._latches = thresholds, Past(thresholds.window), Latches(thresholds.rearm)
        self._lowest = math.inf

    def step(self, step: int, norm: float) -> list[Finding]:
        """The gradient norm of an applied step."""
        found: list[Finding] = []
        if self._past.is_full:
            middle = self._past.middle()
            if self._latches.tells("gradient spike", middle > 0.0 and norm > self._at.norm_jump * middle):
                found.append(self._spike(step, norm, middle))
            is_drift = 0.0 < self._lowest < math.inf and middle > self._at.norm_drift * self._lowest
            if self._latches.tells("gradient-norm drift", is_drift):
                found.append(self._drift(step, middle))
            self._lowest = min(self._lowest, middle) if middle > 0.0 else self._lowest
        self._past.add(norm)
        return found

    def _spike(self, step: int, norm: float, middle: float) -> Finding:
        return Finding(
            step=step,
            name="gradient spike",
            severity="warning",
            message=f"the gradient norm is {norm:.3g}, {norm / middle:.3g} times its median {middle:.3g}",
            evidence={"gradient norm": norm, "median": middle},
            threshold=f"{self._at.norm_jump:g} times the median of {self._at.window} steps",
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
            threshold=f"{self._at.norm_drift:g} times the lowest median of {self._at.window} steps",
            remedy="a smaller learning rate, or formats with more mantissa bits in the layers whose gradients grow",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        lowest = self._lowest if math.isfinite(self._lowest) else None
        return {"past": list(self._past.values), "lowest": lowest, "told": self._latches.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._past.values.extend(state["past"])
        self._lowest = math.inf if state["lowest"] is None else float(state["lowest"])
        self._latches.load(state["told"])
