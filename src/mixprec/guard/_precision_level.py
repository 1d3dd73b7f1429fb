"""What formats do to operands, and what they cost: risen above what it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from ..monitor.alarms import MAD_TO_DEVIATION, Thresholds
from ..records import StatisticsRecord
from ._trigger import Trigger

#: A fall of the signal-to-noise ratio by as much as three bits of the mantissa are worth [dB]; ordinary ones move by 2.
FALL_DB = 18.0
#: Samples of an operand, and gaps of a shadow, that an ordinary level is made of.
LEAST_SAMPLES, SAMPLES = 3, 16
#: Deviations of a gap that are ordinary.
DEVIATIONS = 6.0


class PrecisionLevel:
    """Compares samples of operands with earlier ones of the same operand, and a shadow's gap with earlier gaps.

    Args:
        thresholds: share of saturated elements from which on it is a fault.
        drift: share of the baseline's loss that a gap may rise by.
        target: the largest gap of a baseline's loss; ``None``: as high as it usually is.

    Example:
        >>> level = PrecisionLevel(Thresholds(), drift=0.01)
        >>> [level.gap(0.001, baseline=2.0) for _ in range(4)]
        [None, None, None, None]
        >>> level.gap(0.3, baseline=2.0).name
        'precision drift'
    """

    def __init__(
        self, thresholds: Thresholds, *, drift: float, target: Callable[[float], float | None] = lambda baseline: None
    ) -> None:
        self._at, self._drift, self._target = thresholds, drift, target
        self._signals: dict[str, list[float]] = {}
        self._saturated: dict[str, list[float]] = {}
        self._gaps: list[float] = []

    def look(self, records: Iterable[StatisticsRecord]) -> list[Trigger]:
        """Samples of one step; those that are no ordinary ones are not remembered."""
        found: list[Trigger] = []
        for record in records:
            if record.in_use and record.role in ("input", "weight", "grad_output"):
                found += self._judged(record, f"{record.site} ({record.role})")
        return found

    def gap(self, gap: float, *, baseline: float) -> Trigger | None:
        """The gap that a shadow has measured; one that is no ordinary one is not remembered.

        Where the baseline itself is not finite, the precision is not what is wrong.
        """
        if not math.isfinite(baseline):
            return None
        limit = self.limit(baseline)
        if limit is not None and not gap <= limit:
            return Trigger(name="precision drift", evidence={"gap": gap, "baseline": baseline, "limit": limit})
        if math.isfinite(gap):
            self._gaps = [*self._gaps[1 - SAMPLES :], gap]
        return None

    def limit(self, baseline: float) -> float | None:
        """The largest gap that is no fault: the target, or an ordinary one; ``None`` while neither is known."""
        target = self._target(baseline)
        if len(self._gaps) < LEAST_SAMPLES:
            return target
        middle = median(self._gaps)
        deviation = MAD_TO_DEVIATION * median(abs(gap - middle) for gap in self._gaps)
        usual = middle + max(self._drift * abs(baseline), DEVIATIONS * deviation)
        return usual if target is None else min(usual, target)

    def sites(self, most: int) -> list[str]:
        """Operands whose last sample was the noisiest, the worst first."""
        last = {site: signals[-1] for site, signals in self._signals.items() if signals}
        return sorted(last, key=lambda site: last[site])[:most]

    def _judged(self, record: StatisticsRecord, site: str) -> list[Trigger]:
        signals, shares = self._signals.setdefault(site, []), self._saturated.setdefault(site, [])
        evidence = {"cast": record.cast, "signal to noise [dB]": record.sqnr_db, "saturated": record.saturated}
        if len(signals) >= LEAST_SAMPLES:
            usual, share = median(signals), median(shares)
            evidence |= {"usual [dB]": usual, "usually saturated": share}
            if record.saturated > self._at.saturated and record.saturated > self._at.rising * share:
                return [Trigger(name="saturated operand", site=site, evidence=evidence)]
            if record.sqnr_db < usual - FALL_DB:
                return [Trigger(name="noisy operand", site=site, evidence=evidence)]
        if math.isfinite(record.sqnr_db):
            self._signals[site] = [*signals[1 - SAMPLES :], record.sqnr_db]
            self._saturated[site] = [*shares[1 - SAMPLES :], record.saturated]
        return []

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {
            "signals": {site: list(values) for site, values in self._signals.items()},
            "saturated": {site: list(values) for site, values in self._saturated.items()},
            "gaps": list(self._gaps),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._signals = {site: list(values) for site, values in state["signals"].items()}
        self._saturated = {site: list(values) for site, values in state["saturated"].items()}
        self._gaps = list(state["gaps"])
