"""By what a recipe multiplies the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..formats import unknown_name
from ._kinds import NUMBER, WHOLE, check_kinds

LossScaleKind = Literal["none", "static", "dynamic"]

_COUNTS = ("interval", "hysteresis", "alarm_after")


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """By what the loss is multiplied, so that small gradients survive a narrow exponent.

    Attributes:
        kind: ``"none"``; ``"static"``: always ``initial``; ``"dynamic"``: shrinks when a gradient is not
            finite and grows after ``interval`` steps without.
        initial: the first scale.
        growth: factor at growth, above 1.
        backoff: factor after a step that was skipped, between 0 and 1.
        interval: applied steps from one change to growth.
        maximum: the largest scale.
        minimum: the smallest scale; reaching it is an event.
        hysteresis: which step that is not finite, counted since the last growth, is the first to shrink the scale;
            each later one does too. 1: each one.
        alarm_after: steps skipped in a row, whatever the kind, that raise an alarm.

    Raises:
        ValueError: an unknown kind, or numbers out of order.
        TypeError: what should be a number and is none.

    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740; the defaults are those of
    ``torch.amp.GradScaler``; hysteresis as in Megatron-LM's dynamic scaler, which takes 2.

    Example:
        >>> LossScale(kind="dynamic").initial
        65536.0
    """

    kind: LossScaleKind = "none"
    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    maximum: float = 2.0**127
    minimum: float = 2.0**-24
    hysteresis: int = 1
    alarm_after: int = 20

    def __post_init__(self) -> None:
        if self.kind not in get_args(LossScaleKind):
            raise unknown_name("loss scale", self.kind, get_args(LossScaleKind))
        numbers = dict.fromkeys(("initial", "growth", "backoff", "maximum", "minimum"), NUMBER)
        check_kinds("loss scale", self, {**numbers, **dict.fromkeys(_COUNTS, WHOLE)})
        if not 0 < self.minimum <= self.initial <= self.maximum <= 2.0**127:
            raise ValueError(
                f"loss scale has minimum={self.minimum}, initial={self.initial}, maximum={self.maximum}: "
                "expected 0 < minimum <= initial <= maximum <= 2**127"
            )
        if not (1 < self.growth < float("inf") and 0 < self.backoff < 1):
            raise ValueError(
                f"loss scale has growth={self.growth}, backoff={self.backoff}: expected growth above 1, backoff "
                "between 0 and 1"
            )
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ValueError(f"loss scale has {name}={getattr(self, name)}, expected {name} 1 or more")


#: A recipe's loss scale where nothing was said of it; told apart from an equal one that was asked for by its identity.
NOT_SAID = LossScale()
