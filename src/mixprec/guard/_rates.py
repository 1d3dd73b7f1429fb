"""Learning rates that jump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._trigger import Trigger

#: Times the rate of the step before, and times the highest rate so far: a warm-up at most doubles either, and the
#: restart of a cosine does not exceed its peak.
JUMP, ABOVE = 4.0, 2.0


class RateLevel:
    """Compares each learning rate with that of the step before and with the highest so far.

    Example:
        >>> level = RateLevel()
        >>> for rate in (1e-3, 2e-3, 3e-3):
        ...     level.admit({"adam": rate})
        >>> [trigger.name for trigger in level.judge({"adam": 3e-2})], level.judge({"adam": 4e-3})
        (['learning-rate jump'], [])
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def judge(self, rates: Mapping[str, float]) -> list[Trigger]:
        """Which have jumped; nothing is remembered."""
        found: list[Trigger] = []
        for name, rate in rates.items():
            last, highest = self._last.get(name, 0.0), self._highest.get(name, 0.0)
            if last > 0.0 and rate > JUMP * last and rate > ABOVE * highest:
                evidence = {"learning rate": rate, "before": last, "highest before": highest}
                found.append(Trigger(name="learning-rate jump", site=name, evidence=evidence))
        return found

    def admit(self, rates: Mapping[str, float]) -> None:
        """Remember those of a step."""
        for name, rate in rates.items():
            self._last[name], self._highest[name] = rate, max(rate, self._highest.get(name, 0.0))

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"last": dict(self._last), "highest": dict(self._highest)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._last, self._highest = dict(state["last"]), dict(state["highest"])
