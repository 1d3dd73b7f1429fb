"""Which steps that are not finite are worth a dump: the first of a streak, and where it turns out worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .._step_watch import StepFacts

#: Steps from one dump of a loss scale that finds its level to the next.
_ORDINARY_APART = 100
#: Skipped steps in a row up to which a loss scale may be finding its level.
_ORDINARY_IN_ROW = 8


@dataclass(frozen=True)
class Cause:
    """Why a dump is to be written: what is not finite, and whether a loss scale may be finding its level."""

    what: str
    is_ordinary: bool


@dataclass
class _Streak:
    """Steps in a row that are not finite, and whether they were told of as a fault."""

    length: int = 0
    was_told: bool = False


class Streaks:
    """Streaks of steps that are not finite; of optimizers that step by turns each has its own.

    Example:
        >>> streaks = Streaks()
        >>> facts = {"step": 3, "grad_norm": 1.0, "norms": {}, "scale": 1.0, "loss_scales": {}, "gradients": {}}
        >>> bad = StepFacts(**facts, losses=(("loss", math.nan),), is_finite=False, parameters={})
        >>> streaks.judge(bad), streaks.judge(bad)
        (Cause(what="the loss 'loss'", is_ordinary=False), None)
    """

    def __init__(self) -> None:
        self._streaks: dict[str, _Streak] = {}
        self._last_ordinary: int | None = None

    def judge(self, facts: StepFacts) -> Cause | None:
        """Why a step is worth a dump; ``None`` where it is not.

        That is the first of a streak, and again one where a loss is the first not to be finite in it.
        """
        streak = self._streaks.setdefault("+".join(facts.optimizers), _Streak())
        bad_losses = [name for name, loss in facts.losses if not math.isfinite(loss)]
        is_bad = bool(bad_losses) or not facts.is_finite
        streak.length = streak.length + 1 if is_bad else 0
        is_scaled = any(scale > 1.0 for scale in facts.loss_scales.values())
        is_ordinary = not bad_losses and is_scaled and streak.length < _ORDINARY_IN_ROW
        is_new = is_bad and (streak.length == 1 or (not is_ordinary and not streak.was_told))
        streak.was_told = is_bad and (streak.was_told or not is_ordinary)
        if not is_new:
            return None
        if is_ordinary:
            if self._last_ordinary is not None and facts.step - self._last_ordinary < _ORDINARY_APART:
                return None
            self._last_ordinary = facts.step
        return Cause(f"the loss {bad_losses[0]!r}" if bad_losses else "a gradient", is_ordinary)

    def state_dict(self) -> dict[str, Any]:
        """What they remember, as JSON can hold it."""
        streaks = {name: asdict(streak) for name, streak in self._streaks.items()}
        return {"streaks": streaks, "last ordinary": self._last_ordinary}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._streaks = {name: _Streak(**streak) for name, streak in state["streaks"].items()}
        self._last_ordinary = state["last ordinary"]
