"""What belongs to one step of a loop that may have several optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .._step_records import parts_of
from .._step_watch import StepFacts


@dataclass
class Update:
    """Optimizers that have stepped by the same passes: no training pass began between their calls.

    Attributes:
        losses: name and value of each loss in their gradients.
        applied: facts of those that were stepped.
        skipped: of those that a scaler has skipped.
        is_told: whether the skipped ones were told already, before another one's step changed weights.
    """

    losses: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    applied: list[StepFacts] = field(default_factory=list[StepFacts])
    skipped: list[StepFacts] = field(default_factory=list[StepFacts])
    is_told: bool = False


@dataclass
class Round:
    """One step: each optimizer once, by whatever passes; one that comes again begins the next.

    Attributes:
        names: of the optimizers that were called in it.
        losses: name and value of each loss in it.
        parts: the same, as they are told apart: those without a name by the optimizers that have stepped by them.
        norms: of each parameter's gradient, by name.
        loss_scale: that it ran under.
        is_applied: whether any of them was stepped.
    """

    names: set[str] = field(default_factory=set[str])
    losses: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    parts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    norms: dict[str, float] = field(default_factory=dict[str, float])
    loss_scale: float | None = None
    is_applied: bool = False

    def add(self, update: Update) -> None:
        """Optimizers have been called in it."""
        self.losses += update.losses
        names = {name for facts in (*update.skipped, *update.applied) for name in facts.optimizers}
        self.parts += parts_of(names, update.losses).items()
        self.is_applied |= bool(update.applied)
        for facts in (*update.skipped, *update.applied):
            self.names |= set(facts.optimizers)
            self.norms |= facts.norms
            self.loss_scale = facts.loss_scales.get("loss", self.loss_scale)

    @property
    def grad_norm(self) -> float | None:
        """Of all gradients in it; ``None`` where none was seen."""
        return norm_of(list(self.norms.values())) if self.norms else None


def merged(parts: Sequence[StepFacts]) -> StepFacts:
    """The facts of several optimizers that step by the same passes, as one's; the last ones' losses are all.

    Example:
        >>> parts = [
        ...     StepFacts(step=0, losses=(), grad_norm=norm, norms={name: norm}, is_finite=True, scale=1.0,
        ...         loss_scales={}, gradients={}, parameters={}, optimizers=(name,))
        ...     for name, norm in (("a", 3.0), ("b", 4.0))
        ... ]
        >>> both = merged(parts)
        >>> both.grad_norm, both.optimizers
        (5.0, ('a', 'b'))
    """
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return first
    return replace(
        last,
        grad_norm=norm_of([facts.grad_norm for facts in parts]),
        norms={name: norm for facts in parts for name, norm in facts.norms.items()},
        is_finite=all(facts.is_finite for facts in parts),
        scale=first.scale,
        gradients={n: g for facts in parts if facts.scale == first.scale for n, g in facts.gradients.items()},
        optimizers=tuple(name for facts in parts for name in facts.optimizers),
    )


def norm_of(norms: Sequence[float]) -> float:
    """2-norm of parts' norms; NaN where one is, though another be infinite."""
    return math.nan if any(map(math.isnan, norms)) else math.hypot(*norms)
