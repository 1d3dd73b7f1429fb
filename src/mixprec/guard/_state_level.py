"""Weights and moments that are wrong in themselves: not finite, or changed by no update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ._seen import StateNumbers
from ._trigger import Trigger

#: An update changes a tensor's largest element by a small part of it, but where it begins at zero. A flipped exponent
#: bit makes of it 2, 4, 16, 256, ... times as much: from here on it is no update, where it also exceeds every element
#: of every weight of the step before.
JUMP = 16.0

#: An outlier's growth: largest magnitude over root mean square so many times what it was one look or two looks before,
GROWTH, GROWTH_OF_TWO = 2.0, 4.0
#: ... and from here on: normally distributed numbers stay below 6 by far.
LEAST_SPREAD = 8.0


class StateLevel:
    """Compares weights with those of the step before, and their spread with that of the last two looks at it.

    Example:
        >>> level = StateLevel()
        >>> level.admit(StateNumbers(weights={"w": 0.5}))
        >>> [t.name for t in level.judge(StateNumbers(weights={"w": 1e36}, moments={"w exp_avg": float("inf")}))]
        ['moment not finite', 'weight jump']
    """

    def __init__(self) -> None:
        self._weights: dict[str, float] = {}
        self._spreads: list[dict[str, float]] = []

    def judge(self, numbers: StateNumbers) -> list[Trigger]:
        """What is wrong with them; nothing is remembered."""
        found = [
            Trigger(name=f"{what} not finite", site=name, evidence={"largest magnitude": amax})
            for what, values in (("weight", numbers.weights), ("moment", numbers.moments))
            for name, amax in values.items()
            if not math.isfinite(amax)
        ]
        return [*found, *self._jumps(numbers.weights), *self._grown(numbers.spread)]

    def admit(self, numbers: StateNumbers) -> None:
        """Remember those of a step."""
        if numbers.weights:
            self._weights = {name: amax for name, amax in numbers.weights.items() if math.isfinite(amax)}
        if numbers.spread:
            self._spreads = [*self._spreads[-1:], dict(numbers.spread)]

    def _jumps(self, weights: Mapping[str, float]) -> list[Trigger]:
        widest = max(self._weights.values(), default=math.inf)
        found: list[Trigger] = []
        for name, amax in weights.items():
            before = self._weights.get(name, 0.0)
            if before and widest < amax < math.inf and amax > JUMP * before:
                found.append(
                    Trigger(name="weight jump", site=name, evidence={"largest magnitude": amax, "before": before})
                )
        return found

    def _grown(self, spread: Mapping[str, float]) -> list[Trigger]:
        found: list[Trigger] = []
        for name, now in spread.items():
            earlier = [spreads[name] for spreads in reversed(self._spreads) if name in spreads]
            pairs = zip(earlier, (GROWTH, GROWTH_OF_TWO), strict=False)
            if now >= LEAST_SPREAD and any(before and now >= factor * before for before, factor in pairs):
                evidence = {"largest over rms": now, "before": earlier[-1]}
                found.append(Trigger(name="outlier growth", site=name, evidence=evidence))
        return found

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"weights": dict(self._weights), "spreads": [dict(spread) for spread in self._spreads]}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._weights = dict(state["weights"])
        self._spreads = [dict(spread) for spread in state["spreads"]]
