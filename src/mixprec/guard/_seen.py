"""What a guard is shown of a step, before its update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


def _none() -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, kw_only=True)
class StateNumbers:
    """Weights and moments in numbers, before the update.

    Attributes:
        weights: largest magnitude of each, by name; NaN where an element is.
        moments: likewise, by the parameter's name and that of the moment.
        spread: of weights, the largest magnitude over the root mean square; empty where it was not taken in this step.
    """

    weights: Mapping[str, float] = field(default_factory=_none)
    moments: Mapping[str, float] = field(default_factory=_none)
    spread: Mapping[str, float] = field(default_factory=_none)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One step whose gradients are there, and whose update is not.

    Attributes:
        step: applied steps before it.
        batch: number of its last batch; ``None`` where nobody counts them.
        batches: of all its batches, where it has several.
        losses: unscaled, by name.
        grad_norm: of the unscaled gradient before clipping.
        is_finite: whether all gradients are.
        scaling: kind of the loss's scale.
        loss_scale: its value; 1 without one.
        rates: learning rate of each optimizer's group.
        located: site of the first bad value of a step whose gradients are not finite; empty where nobody has found it.
        turn: optimizers that take the step, where a run has several: steps of another turn have other losses and norms.
        state: weights and moments.
    """

    step: int
    batch: int | None = None
    batches: tuple[int, ...] = ()
    losses: Mapping[str, float] = field(default_factory=_none)
    grad_norm: float = 0.0
    is_finite: bool = True
    scaling: Literal["none", "static", "dynamic"] = "none"
    loss_scale: float = 1.0
    rates: Mapping[str, float] = field(default_factory=_none)
    located: str = ""
    turn: str = ""
    state: StateNumbers = field(default_factory=StateNumbers)
