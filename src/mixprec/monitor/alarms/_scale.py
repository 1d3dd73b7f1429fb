"""Alarms on a loss scale: it collapses, or steps are skipped one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from .._finding import Finding
from ._latch import Latches
from ._thresholds import Thresholds


class ScaleAlarm:
    """Counts halvings within the last steps, once the scale has found its level, and skipped steps in a row."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._latches = thresholds, Latches(thresholds.rearm)
        self._steps = self._applied = self._in_row = 0
        self._halvings: deque[int] = deque(maxlen=thresholds.scale_halvings)
        self._before: float | None = None

    def step(self, step: int, scale: float | None, *, applied: bool) -> list[Finding]:
        """A step's loss scale (``None``: without one), and whether it was applied."""
        self._steps += 1
        self._applied += applied
        self._in_row = 0 if applied else self._in_row + 1
        has_shrunk = scale is not None and self._before is not None and scale < self._before
        if has_shrunk and self._applied > self._at.window:
            self._halvings.append(self._steps)
        self._before = scale
        found: list[Finding] = []
        full = len(self._halvings) == self._at.scale_halvings
        is_on = full and self._steps - self._halvings[0] < self._at.scale_steps
        if self._latches.tells("loss scale collapse", is_on) and scale is not None:
            found.append(self._collapse(step, scale))
        if self._latches.tells("steps skipped in a row", self._in_row >= self._at.skipped_in_row):
            found.append(self._skipping(step, scale))
        return found

    def _collapse(self, step: int, scale: float) -> Finding:
        return Finding(
            step=step,
            name="loss scale collapse",
            severity="fault",
            message=f"the loss scale fell to {scale:g}: {self._at.scale_halvings} times within "
            f"{self._steps - self._halvings[0] + 1} steps",
            evidence={"loss scale": scale, "steps": float(self._steps - self._halvings[0] + 1)},
            threshold=f"{self._at.scale_halvings} times within {self._at.scale_steps} steps",
            remedy="gradients grow beyond fp16: session.locate() names the layer; a smaller learning rate, or recipe "
            "'bf16', whose range is fp32's",
        )

    def _skipping(self, step: int, scale: float | None) -> Finding:
        under = "" if scale is None else f" (loss scale {scale:g})"
        return Finding(
            step=step,
            name="steps skipped in a row",
            severity="fault",
            message=f"{self._in_row} steps in a row were skipped{under}",
            evidence={"skipped": float(self._in_row)} | ({} if scale is None else {"loss scale": scale}),
            threshold=f"{self._at.skipped_in_row} in a row",
            remedy="session.locate() names the first operation that is not finite",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {
            "steps": self._steps,
            "applied": self._applied,
            "in_row": self._in_row,
            "halvings": list(self._halvings),
            "before": self._before,
            "told": self._latches.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._steps, self._applied, self._in_row = (int(state[name]) for name in ("steps", "applied", "in_row"))
        self._halvings.extend(state["halvings"])
        self._before = state["before"]
        self._latches.load(state["told"])
