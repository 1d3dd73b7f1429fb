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

from ...records import EventRecord, StepRecord
from .._finding import Finding
from .._listeners import Listeners
from .._step_watch import StepFacts, StepWatch
from .._watches import StepWatches
from . import _scaler
from ._gradients import Norms, norms_of
from ._losses import Losses
from ._root_hooks import RootHooks

_APPLIED = "the optimizer was stepped with a gradient that is not finite: the weights that it reached are lost"
_REMEDY = "train by mixprec.prepare, or with a torch.amp.GradScaler, which skip such a step; go back to a checkpoint"


class LoopSteps:
    """Tells ``watches`` of the steps of a loop that knows nothing of them.

    A step is a call of an optimizer's ``step``; of several optimizers each call is one. Its gradients are looked at
    just before, as the loop leaves them: unscaled, and clipped if the loop clips. One transfer a step brings norms and
    losses to the host. Without an optimizer a step is a training pass of the model.

    Args:
        model: the root, not a wrapper of it.
        optimizers: whose steps are told.
        scaler: a ``GradScaler``, whose skipped steps are told then, or ``None``.
        watches: are told.
        listeners: hear a record of each step, and the findings.

    Attributes:
        step: applied steps.
        skipped: steps that the scaler skipped.
        own_seconds: time in the hooks of steps, all that is done and written there [s].
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        scaler: Any,
        watches: Sequence[StepWatch],
        listeners: Listeners,
    ) -> None:
        self._model, self._optimizers, self._scaler = model, tuple(optimizers), scaler
        self._watches, self._listeners = StepWatches(watches), listeners
        self._losses = Losses(self._watches, self._loss_scale)
        self._facts: StepFacts | None = None
        self._was_stepped = self._is_closed = False
        self.step = self.skipped = 0
        self.own_seconds = 0.0
        self._last = time.perf_counter()
        self._passes = 0
        if scaler is not None:  # what may be refused comes first
            _scaler.listen(scaler, self)
        self._root = RootHooks(model, self.begin_pass, self._losses.returned)
        self._handles: list[RemovableHandle] = []
        for optimizer in self._optimizers:
            self._handles.append(optimizer.register_step_pre_hook(self._before))
            self._handles.append(optimizer.register_step_post_hook(self._after))

    def loss(self, loss: Tensor, name: str) -> None:
        """A loss is about to be backpropagated."""
        self._losses.given(loss, name)

    def failed(self, error: BaseException) -> None:
        """The loop is left by an exception."""
        self._watches.failed(error)

    def close(self) -> None:
        """Take all hooks off; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for handle in self._handles:
            handle.remove()
        self._root.remove()
        if self._scaler is not None:
            _scaler.leave(self._scaler)
        self._watches.close()

    def begin_pass(self) -> None:
        """A training pass of the model begins."""
        self._losses.end_backward()
        if not self._optimizers and self._passes:
            self._end_step(self._facts_of({}), applied=True)
        self._passes += 1

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        started = time.perf_counter()
        self._begin_step(optimizer, args, kwargs)
        self.own_seconds += time.perf_counter() - started

    def _after(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        started = time.perf_counter()
        facts, self._facts = self._facts, None
        if facts is not None:
            self._end_step(facts, applied=True)
        elif _has_closure(args, kwargs):
            self.step += 1
        self.own_seconds += time.perf_counter() - started

    def scaled_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """A scaler is asked for a step of an optimizer."""
        if optimizer not in self._optimizers:
            return step()
        self._was_stepped = False
        result = step()
        if not self._was_stepped:
            self._losses.end_backward()
            self._skip(self._facts_of(_gradients(optimizer)))
        return result

    def _begin_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._was_stepped, self._facts = True, None
        self._losses.end_backward()
        if _has_closure(args, kwargs):  # which makes the gradients inside of the step
            return
        scale, found = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
        facts = self._facts_of(_gradients(optimizer), 1.0 if scale is None else float(scale))
        if found is not None and not facts.is_finite:
            self._skip(facts)  # a fused optimizer is called, and does nothing
            return
        self._facts = facts
        if facts.is_finite:
            self._watches.before_update(facts)
        else:
            self._listeners.find((*self._watches.skipped(facts), _lost(facts)))

    def _skip(self, facts: StepFacts) -> None:
        self._listeners.find(self._watches.skipped(facts))
        self.skipped += 1
        bad = next((name for name, norm in facts.norms.items() if not math.isfinite(norm)), "")
        told, where = self._listeners, f" in the gradient of {bad}" if bad else ""
        message = f"skipped: inf or NaN{where}; loss scale was {facts.loss_scales.get('loss', 1.0):g}"
        self._record(facts, applied=False)
        event = EventRecord(
            recipe=told.recipe, seed=told.seed, step=facts.step, name="skipped", site=bad, message=message
        )
        told.hear([event])

    def _end_step(self, facts: StepFacts, *, applied: bool) -> None:
        if facts.is_finite:
            self._listeners.find(self._watches.after_update(facts))
        self.step += 1
        self._record(facts, applied=applied)

    def _record(self, facts: StepFacts, *, applied: bool) -> None:
        now = time.perf_counter()
        record = StepRecord(
            recipe=self._listeners.recipe,
            seed=self._listeners.seed,
            step=facts.step,
            loss=sum(loss for _, loss in facts.losses) if facts.losses else math.nan,
            seconds=now - self._last,
            applied=applied,
            grad_norm=facts.grad_norm if facts.norms else None,
            loss_scale=None if self._scaler is None else facts.loss_scales.get("loss"),
            tokens=None,
        )
        self._last = now
        self._listeners.hear([record])

    def _facts_of(self, gradients: Mapping[Parameter, Tensor], scale: float = 1.0) -> StepFacts:
        parameters = dict(self._model.named_parameters())
        names = {p: name for name, p in parameters.items()}
        named = {names[p]: grad for p, grad in gradients.items() if p in names}
        losses = self._losses.take()
        found: Norms = norms_of(named, [loss for _, loss in losses])
        loss_scale = self._loss_scale()
        return StepFacts(
            step=self.step,
            losses=tuple((name, value) for (name, _), value in zip(losses, found.losses, strict=True)),
            grad_norm=found.total / scale,
            norms=found.each if scale == 1.0 else {name: norm / scale for name, norm in found.each.items()},
            is_finite=found.is_finite,
            scale=scale,
            loss_scales=dict.fromkeys([name for name, _ in losses] or ["loss"], loss_scale),
            gradients=named,
            parameters=parameters,
        )

    def _loss_scale(self) -> float:
        return 1.0 if self._scaler is None else float(self._scaler.get_scale())


def _gradients(optimizer: Optimizer) -> dict[Parameter, Tensor]:
    return {p: p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None}


def _has_closure(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(map(callable, args)) or callable(kwargs.get("closure"))


def _lost(facts: StepFacts) -> Finding:
    bad = next(name for name, norm in facts.norms.items() if not math.isfinite(norm))
    return Finding(
        step=facts.step, name="non-finite update", severity="fault", site=bad, message=_APPLIED, remedy=_REMEDY
    )
