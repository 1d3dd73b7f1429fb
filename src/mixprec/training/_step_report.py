"""What a step tells: its result, and its record in the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn import Parameter

from ..loss_scaling import ScaleState
from ..monitor import Listeners, StepRecords, least_scale
from ..monitor.locate import is_sharded
from ..specs import Recipe
from ._blame import scaling_texts, skip_reason, skipped_optimizers
from ._result import Event, StepResult
from ._scales import LossScales
from ._verdict import Verdict

#: Why nobody does it by himself: docs/decisions/0014-replays-of-sharded-models.md.
ON_ALL_RANKS = "session.locate(...) on all ranks names the operation"


class StepReport:
    """Says of each step what became of it.

    Args:
        model: whose parameters are named.
        recipe: of the session.
        scales: of its losses.
        listeners: hear its records and events.
        optimizers: names of all.
    """

    def __init__(
        self, model: nn.Module, recipe: Recipe, scales: LossScales, listeners: Listeners, optimizers: Iterable[str]
    ) -> None:
        self.model, self.recipe, self.scales = model, recipe, scales
        self._listeners, self._records = listeners, StepRecords(listeners, optimizers)

    def decide(self, verdict: Verdict) -> list[Any]:
        """Let the scales of the losses in a step go on; what they tell of it."""
        names = sorted(verdict.in_flight if verdict.is_finite else verdict.at_fault)
        if not verdict.losses:
            self.scales.begin_all(names)
        return [event for name in names for event in self.scales.decide(name, verdict.is_finite)]

    def states(self) -> dict[str, ScaleState]:
        """Of each loss's scale."""
        return {loss: self.scales.state(loss) for loss in self.scales.names}

    def skipped(self, verdict: Verdict, before: Mapping[str, ScaleState], step: int, located: tuple[str, str]) -> Event:
        """Why a step was skipped.

        Args:
            verdict: on it.
            before: the scales' states that it ran under.
            step: applied steps before it.
            located: what went bad first, and its site; empty where nobody has found it.
        """
        scaling = scaling_texts(self.scales, before, verdict.at_fault)
        how = ON_ALL_RANKS if is_sharded(self.model) else ""
        reason, site = skip_reason(verdict, self._names(), self.recipe.compute_dtype, scaling, located, how)
        return Event(step=step, name="skipped", message=reason, site=site)

    def result(self, verdict: Verdict, reason: str, name: str, events: Sequence[Event]) -> StepResult:
        """What the call gives back; ``name`` is that of the loss whose scale it tells."""
        everything = not reason and len(verdict.steps) == len(verdict.norms)
        skipped = {} if everything else skipped_optimizers(verdict, self._names(), self.recipe.compute_dtype)
        return StepResult(
            applied=not reason,
            reason=reason,
            grad_norm=verdict.norm,
            loss_scale=self.scales.scale(name),
            events=tuple(events),
            skipped=skipped,
            loss_scales={loss: self.scales.scale(loss) for loss in self.scales.names},
            losses=tuple(loss for loss in self.scales.names if loss in dict(verdict.losses)),
        )

    def tell(self, step: int, verdict: Verdict, loss_scales: Mapping[str, float]) -> None:
        """Let its record be heard; ``loss_scales`` are what its losses were multiplied by."""
        scaled = {name: scale for name, scale in loss_scales.items() if self.scales.spec(name).kind != "none"}
        self._records.tell(
            step=step,
            losses=verdict.losses,
            applied=verdict.is_finite,
            grad_norm=verdict.norm,
            loss_scale=least_scale(verdict.losses, scaled),
            optimizers=verdict.steps,
        )

    def tell_events(self, events: Sequence[Event]) -> None:
        """Let the events of a step be heard."""
        told = self._listeners
        told.hear([event.record(told.recipe, told.seed) for event in events])

    def _names(self) -> dict[Parameter, str]:
        return {p: name for name, p in self.model.named_parameters()}
