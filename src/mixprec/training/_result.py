"""What a step tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records import EventRecord


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run and that a user should hear of.

    Attributes:
        step: applied steps before it.
        name: its kind, e.g. ``"skipped"``.
        message: one sentence, with what to do where something can be done.
        site: module path or parameter name; empty when it is about no single one.
    """

    step: int
    name: str
    message: str
    site: str = ""

    def __str__(self) -> str:
        return f"step {self.step}: {self.message}"

    def record(self, recipe: str, seed: int) -> EventRecord:
        """The event as a line of a run's records."""
        return EventRecord(
            recipe=recipe, seed=seed, step=self.step, name=self.name, site=self.site, message=self.message
        )


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one call of ``Session.step`` did.

    Attributes:
        applied: whether the weights were updated; a learning-rate schedule steps only then.
        reason: empty when applied, else why the step was skipped.
        grad_norm: 2-norm of all gradients, unscaled, before clipping.
        loss_scale: what the next loss (of the name that the step was given) is multiplied by.
        events: what the step told, also in ``Session.events``.
        skipped: by the name of an optimizer that was to step and did not: why.
        loss_scales: what each loss is multiplied by next, by its name.
        losses: names of those that the step was taken or skipped with.

    Example:
        >>> result = StepResult(applied=True, reason="", grad_norm=5.0, loss_scale=1.0, events=())
        >>> print(result)
        applied: gradient norm 5, loss scale 1
    """

    applied: bool
    reason: str
    grad_norm: float
    loss_scale: float
    events: tuple[Event, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    loss_scales: Mapping[str, float] = field(default_factory=dict[str, float])
    losses: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.reason or f"applied: gradient norm {self.grad_norm:g}, {self._scales_text()}"

    def _scales_text(self) -> str:
        """The scale of each loss in the step; by name, where there are several or the only one has one."""
        scales = {name: self.loss_scales[name] for name in self.losses if name in self.loss_scales}
        if len(self.loss_scales) < 2 or not scales:
            return f"loss scale {self.loss_scale:g}"
        return ", ".join(f"loss scale of '{name}' {scale:g}" for name, scale in scales.items())
