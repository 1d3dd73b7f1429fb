"""Alarms on updates: weights that rounding holds in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...records import UpdateRecord
from .._finding import Finding
from ._latch import Latches
from ._thresholds import Thresholds

#: Significant bits of a 16-bit weight: an update below half of its last one is lost.
_BITS = {"bf16": 8, "fp16": 11}


class WeightAlarm:
    """Tells a parameter of which most updates are lost."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._latches = thresholds, Latches(max(thresholds.rearm // 10, 1))

    def look(self, records: Iterable[UpdateRecord]) -> list[Finding]:
        """The updates of a sampled step."""
        return [self._stalled(r) for r in records if self._latches.tells(r.site, r.lost > self._at.lost)]

    def _stalled(self, record: UpdateRecord) -> Finding:
        bits = _BITS.get(record.dtype)
        why = f": {record.dtype} holds {bits} significant bits" if bits else ""
        is_16bit = record.dtype in _BITS
        return Finding(
            step=record.step,
            name="stalled weights",
            severity="warning",
            site=record.site,
            message=f"{100 * record.lost:.3g} % of its updates are lost to rounding{why}, the update is "
            f"{record.ratio:.2g} of the weight",
            evidence={"lost": record.lost, "update / weight": record.ratio},
            threshold=f"above {100 * self._at.lost:g} %",
            remedy="keep the weights with an fp32 master, or by stochastic rounding, Kahan compensation or split "
            "(recipes 'bf16', 'bf16-sr', 'bf16-kahan', 'bf16-split')"
            if is_16bit
            else "a larger learning rate, or weights of more bits",
            rule='weights = "master"\n' if is_16bit else "",
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"told": self._latches.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._latches.load(state["told"])
