"""The steps of somebody else's loop, read from the hooks that torch has for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from ...records import EventRecord
from .._finding import Finding
from .._listeners import Listeners
from .._named_parameters import NamedParameters
from .._step_records import StepRecords, parts_of
from .._step_watch import StepFacts, StepWatch
from .._told_once import ToldOnce
from .._watches import StepWatches
from . import _scaler
from ._gradients import norms_of
from ._losses import Losses
from ._root_hooks import RootHooks
from ._round import Round, Update, merged

_APPLIED = "the optimizer was stepped with a gradient that is not finite: the weights that it reached are lost"
_REMEDY = "train by mixprec.prepare, or with a torch.amp.GradScaler, which skip such a step; go back to a checkpoint"


class LoopSteps:
    """Tells ``watches`` of the steps of a loop that knows nothing of them.

    A step is one round of the optimizers: each is called at most once in it, one that comes again begins the next, and
    the last one that is missing ends it. Those that step by the same passes are told as one; where a training pass
    comes between (a GAN's two), each is told when it has stepped. Gradients are looked at just before a call, as the
    loop leaves them: unscaled, and clipped if the loop clips. One transfer a call brings norms and losses to the host.
    Without an optimizer a step is a training pass of the model.

    Args:
        model: the root, not a wrapper of it.
        optimizers: by name, whose steps are told.
        scaler: a ``GradScaler``, whose skipped steps are told then, or ``None``.
        watches: are told.
        listeners: hear a record of each step, and the findings.

    Attributes:
        step: steps in which weights were updated, but for the one that is under way.
        skipped: steps in which the scaler has skipped every optimizer.
        told: what was found in rows of bad steps.
        own_seconds: time in the hooks of steps, all that is done and written there [s].
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Mapping[str, Optimizer],
        scaler: Any,
        watches: Sequence[StepWatch],
        listeners: Listeners,
    ) -> None:
        self._names, self._scaler = {optimizer: name for name, optimizer in optimizers.items()}, scaler
        self._watches, self._listeners = StepWatches(watches), listeners
        self._records, self._parameters = StepRecords(listeners, optimizers), NamedParameters(model)
        self._losses = Losses(self._watches, self._loss_scale)
        self._facts: StepFacts | None = None
        self._update, self._round, self.told = Update(), Round(), ToldOnce()
        self._was_stepped = self._is_closed = False
        self.step = self.skipped = self._passes = 0
        self.own_seconds = 0.0
        if scaler is not None:  # what may be refused comes first
            _scaler.listen(scaler, self)
        self._root = RootHooks(model, self.begin_pass, self._losses.returned)
        self._handles: list[RemovableHandle] = []
        for optimizer in self._names:
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            self._handles.append(optimizer.register_step_post_hook(self._after))

    @property
    def applied(self) -> int:
        """Steps in which weights were updated, with the one that is under way."""
        return self.step + (self._round.is_applied or bool(self._update.applied))

    def loss(self, loss: Tensor, name: str) -> None:
        """A loss is about to be backpropagated."""
        self._losses.given(loss, name)

    def failed(self, error: BaseException) -> None:
        """The loop is left by an exception: what was applied of the step is in its record, and no watch sees more."""
        self._losses.end_backward()
        self._take_update()
        self._watches.failed(error)

    def close(self) -> None:
        """Tell of a step that is under way, and take all hooks off; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end_round()
        for handle in self._handles:
            handle.remove()
        self._root.remove()
        if self._scaler is not None:
            _scaler.leave(self._scaler)
        self._watches.close()

    def begin_pass(self) -> None:
        """A training pass of the model begins."""
        started = time.perf_counter()
        self._losses.end_backward()
        self._end_update()
        if not self._names and self._passes:
            facts = self._facts_of({}, ())
            self._applied(facts)
            self._end_round()
        self._passes += 1
        self.own_seconds += time.perf_counter() - started

    def scaled_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """A scaler is asked for a step of an optimizer."""
        if optimizer not in self._names:
            return step()
        self._was_stepped = False
        result = step()
        if not self._was_stepped:
            started = time.perf_counter()
            self._losses.end_backward()
            self._skip(self._part(optimizer, 1.0))
            self.own_seconds += time.perf_counter() - started
        return result

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        started = time.perf_counter()
        self._was_stepped, self._facts = True, None
        self._losses.end_backward()
        if not _has_closure(args, kwargs):  # which makes the gradients inside of the step
            self._begin_step(optimizer)
        self.own_seconds += time.perf_counter() - started

    def _after(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        started = time.perf_counter()
        facts, self._facts = self._facts, None
        if facts is None and _has_closure(args, kwargs):
            self._losses.end_backward()
            self._losses.keep_last()
            self._make_room(self._names[optimizer])
            facts = self._facts_of({}, (self._names[optimizer],))
        if facts is not None:
            self._applied(facts)
        self.own_seconds += time.perf_counter() - started

    def _begin_step(self, optimizer: Optimizer) -> None:
        scale, found = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
        facts = self._part(optimizer, 1.0 if scale is None else float(scale))
        if found is not None and not facts.is_finite:
            self._skip(facts)  # a fused optimizer is called, and does nothing
            return
        if self._update.skipped:
            self._tell_skipped(self._update)  # a replay needs the weights as they are
        self._facts = facts
        self._watches.before_update(facts)

    def _part(self, optimizer: Optimizer, scale: float) -> StepFacts:
        """The facts of one optimizer that is called now."""
        name = self._names[optimizer]
        self._make_room(name)
        return self._facts_of(_gradients(optimizer), (name,), scale)

    def _make_room(self, name: str) -> None:
        """One that was called in this step already begins the next."""
        if name in self._called:
            self._end_round()

    @property
    def _called(self) -> set[str]:
        parts = (*self._update.skipped, *self._update.applied)
        return self._round.names | {name for facts in parts for name in facts.optimizers}

    def _skip(self, facts: StepFacts) -> None:
        self._update.skipped.append(facts)
        self._end_if_complete()

    def _applied(self, facts: StepFacts) -> None:
        self._update.applied.append(facts)
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._called.issuperset(self._names.values()):
            self._end_round()

    def _end_update(self) -> None:
        """The optimizers that step by the passes so far have all been called."""
        update = self._take_update()
        self._tell_update(update)

    def _end_round(self) -> None:
        """A step is over: its record, what is told of its last part, and the next number."""
        update = self._take_update()
        if not self._round.names and not self._round.is_applied:
            return
        whole, self._round = self._round, Round()
        self._records.tell(
            step=self.step,
            losses=whole.losses,
            applied=whole.is_applied,
            grad_norm=whole.grad_norm,
            loss_scale=None if self._scaler is None else whole.loss_scale,
            optimizers=whole.names,
            parts=parts_of((), whole.parts),
        )
        self._tell_update(update)
        self.step, self.skipped = self.step + whole.is_applied, self.skipped + (not whole.is_applied)

    def _take_update(self) -> Update:
        update, self._update = self._update, Update()
        self._round.add(update)
        return update

    def _tell_update(self, update: Update) -> None:
        if update.skipped and not update.is_told:
            self._tell_skipped(update)
        if not update.applied:
            return
        facts = merged(update.applied)
        found = [*self._watches.after_update(facts), *([] if facts.is_finite else [_lost(facts)])]
        is_good = facts.is_finite and all(math.isfinite(loss) for _, loss in facts.losses)
        if is_good:
            self.told.clear(facts)
        self._listeners.find(found if is_good else self.told.new(facts, found))

    def _tell_skipped(self, update: Update) -> None:
        update.is_told, facts = True, merged(update.skipped)
        self._listeners.find(self.told.new(facts, self._watches.skipped(facts)))
        bad = next((name for name, norm in facts.norms.items() if not math.isfinite(norm)), "")
        who = "" if len(self._names) == len(facts.optimizers) else f" by {', '.join(facts.optimizers)}"
        where = f" in the gradient of {bad}" if bad else ""
        message = f"skipped{who}: inf or NaN{where}; loss scale was {facts.loss_scales.get('loss', 1.0):g}"
        told = self._listeners
        event = EventRecord(
            recipe=told.recipe, seed=told.seed, step=facts.step, name="skipped", site=bad, message=message
        )
        told.hear([event])

    def _facts_of(
        self, gradients: Mapping[Parameter, Tensor], optimizers: tuple[str, ...], scale: float = 1.0
    ) -> StepFacts:
        names = self._parameters.names(gradients)
        named = {names[p]: grad for p, grad in gradients.items() if p in names}
        losses, loss_scale = self._losses.take(), self._loss_scale()
        found = norms_of(named, [loss for _, loss in losses])
        self._update.losses += zip((name for name, _ in losses), found.losses, strict=True)
        return StepFacts(
            step=self.step,
            losses=tuple(self._update.losses),
            grad_norm=found.total / scale,
            norms=found.each if scale == 1.0 else {name: norm / scale for name, norm in found.each.items()},
            is_finite=found.is_finite,
            scale=scale,
            loss_scales=dict.fromkeys([name for name, _ in self._update.losses] or ["loss"], loss_scale),
            gradients=named,
            parameters=self._parameters.parameters,
            optimizers=optimizers,
        )

    def _loss_scale(self) -> float:
        return 1.0 if self._scaler is None else float(self._scaler.get_scale())


def _gradients(optimizer: Optimizer) -> dict[Parameter, Tensor]:
    return {p: p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None}


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(map(callable, args)) or callable(kwargs.get("closure"))


def _lost(facts: StepFacts) -> Finding:
    bad = next((name for name, norm in facts.norms.items() if not math.isfinite(norm)), "")
    return Finding(
        step=facts.step, name="non-finite update", severity="fault", site=bad, message=_APPLIED, remedy=_REMEDY
    )
