"""One training run: backward, unscale, finite check, clip, update, zero_grad; and what it tells."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..loss_scaling import ScaleState, after_step
from ..monitor import StorageKey, UpdateWatch
from ..nn import Audit, Conversion, is_without_session
from ..optim import HALF_DTYPES, KeptWeights, MasterPair
from ..specs import Recipe
from ._blame import scaling_text, skip_reason
from ._checks import check_loss
from ._gradients import Measured, divide, measure, multiply
from ._memory import Memory
from ._memory_count import count_memory, resident_storages
from ._memory_meter import MemoryMeter
from ._phases import PhaseKeeper
from ._result import Event, StepResult
from ._run_folder import RunFolder
from ._state import SessionState
from ._statistics import StatisticsKeeper
from ._text import session_text

_KEPT_EVENTS = 1000


class Session:
    """Made by ``prepare``; ties recipe, model, optimizer, loss scale and monitor together; ``print`` it for what holds.

    Gradients are true gradients after every ``backward``: the loss scale is taken out at once, so that reading,
    adding and clipping them needs no care. That of a 16-bit parameter with a master is fp32.

    Attributes:
        model: the converted model.
        optimizer: whose groups hold masters for 16-bit parameters.
        recipe: with ``auto`` resolved.
        clip_norm: largest norm of the gradients, or ``None``.
        applied: steps that updated the weights.
        skipped: steps that did not.
        loss_scale_state: scale and steps since its last change.
        notes: what there was to tell at preparation; also in ``events``, in the audit, and printed with the session.
    """

    def __init__(
        self,
        model: nn.Module,
        conversion: Conversion,
        kept: KeptWeights,
        recipe: Recipe,
        scale: ScaleState,
        *,
        clip_norm: float | None = None,
        folder: RunFolder | None = None,
        total_steps: int | None = None,
    ) -> None:
        self.model, self.recipe, self.clip_norm, self.loss_scale_state = model, recipe, clip_norm, scale
        self.optimizer = kept.optimizer
        self.applied = self.skipped = 0
        self._events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._conversion, self._kept, self._folder = conversion, kept, folder
        self._statistics = StatisticsKeeper(model)
        self._watch = UpdateWatch(_half_weights(self)) if recipe.weights == "true" else None
        self._losses: list[Tensor] = []
        self._is_open, self._are_gradients_bad = True, False
        self._phases = PhaseKeeper(recipe, conversion, total_steps)
        self._meter = MemoryMeter(model, conversion)
        conversion.begin_step()
        told = tuple(note for note in conversion.notes if not is_without_session(note))
        self.notes = (*told, *self._phases.notes)
        self._tell_notes()

    def __str__(self) -> str:
        return session_text(self)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the session told: the last 1,000 events, oldest first."""
        return tuple(self._events)

    @property
    def loss_scale(self) -> float:
        """What the next loss is multiplied by."""
        return self.loss_scale_state.scale

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradients of ``loss`` to those that are there, through the loss scale.

        Call it for each micro-batch, or for each of several losses, then ``step()`` once.

        Raises:
            TypeError: the loss is no tensor.
            ValueError: the loss is not one number, or has no graph.
        """
        self._refuse_unusable("backward")
        check_loss(loss)
        self._kept.begin_backward()
        if self._are_gradients_bad:
            self._clear_gradients()
        self._meter.begin_backward(loss, self.applied, self._resident)
        params = list(self.model.parameters())
        multiply(params, self.loss_scale)  # the sum is taken at one scale
        try:
            with self._conversion.region():
                _scaled(loss, self.loss_scale).backward(retain_graph=retain_graph)  # pyright: ignore[reportUnknownMemberType]
        finally:
            self._kept.widen_gradients()
            divide(params, self.loss_scale)
        self._meter.end_backward({"optimizer": self.optimizer})
        self._losses.append(loss.detach())

    def step(self, loss: Tensor | None = None, zero_grad: bool = True, *, closure: object = None) -> StepResult:
        """Update the weights, or skip where a gradient is not finite; either is told.

        Order: backward (of ``loss``, if given), finite check of every gradient, norm, clip, optimizer step,
        rounding of the masters into 16-bit weights, zero_grad. A skipped step changes no weight, optimizer state,
        running statistics or random offset of a cast; the loss scale shrinks if it is dynamic.

        Args:
            loss: one number with a graph; ``None`` after ``backward``.
            zero_grad: whether the gradients are cleared at the end. Those of a skipped step can be looked at, and
                are cleared by the next ``backward``: nothing can be added to them.
            closure: refused.

        Raises:
            ValueError: no gradient; gradients that did not come through ``backward`` although the loss is scaled;
                a closure.
        """
        self._refuse_unusable("step")
        if closure is not None:
            check_loss(closure)
        if loss is not None:
            self.backward(loss)
        params = self._with_gradients()
        step, before, events = self.applied, self.loss_scale_state, self._adopt_writes()
        measured = measure(params, self._losses)
        self.loss_scale_state, told = after_step(self.recipe.loss_scale, before, measured.is_finite)
        if measured.is_finite:
            reason = ""
            events += self._apply(params, measured)
        else:
            reason, site = self._skip(params, measured, before)
            events.append(Event(step=step, name="skipped", message=reason, site=site))
        events += [Event(step=step, name=event.name, message=event.message) for event in told]
        self._are_gradients_bad = not measured.is_finite
        if zero_grad:
            self._clear_gradients()
        result = StepResult(
            applied=measured.is_finite,
            reason=reason,
            grad_norm=measured.total,
            loss_scale=self.loss_scale,
            events=tuple(events),
        )
        self._losses = []
        self._meter.end_step()
        self._events.extend(events)
        if self._folder is not None:
            scale = None if self.recipe.loss_scale.kind == "none" else before.scale
            self._folder.write_step(step, measured.losses, result, scale)
        return result

    def audit(self) -> Audit:
        """Format and engine of every GEMM, measured in the first step of the run and of each later phase.

        ``from_step`` tells which step that was; a note, where a phase has begun and was not measured yet.
        """
        return self._phases.audit()

    def memory(self) -> Memory:
        """Bytes by kind, measured: what is there now, and what the measured step held at its fullest.

        Activations and gradients are measured in the first step of the run and of each later phase, and in the step
        after ``measure_next_step``.

        Example:
            >>> from mixprec.training import prepare
            >>> model = nn.Linear(8, 4)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
            >>> _ = session.step(model(torch.ones(16, 8)).sum())
            >>> print(session.memory())
            memory of recipe fp32: 36 parameters
        """
        return count_memory(self.model, {"optimizer": self._kept}, self._kept_beside(), self._meter, self.recipe.name)

    def measure_next_step(self) -> None:
        """Measure ``audit()`` and ``memory()`` anew in the next training step."""
        self._phases.measure_next_step(self.applied)

    def restore(self) -> None:
        """Give the model its own classes and the optimizer the model's own parameters back; ends the session.

        Raises:
            ValueError: the model has been sharded since; nothing is changed then.
        """
        if not self._is_open:
            return
        self._conversion.restore()
        self._statistics.remove()
        self._kept.restore()
        self._is_open = False

    def state_dict(self) -> dict[str, Any]:
        """What continues the session, beside ``model.state_dict()`` and ``optimizer.state_dict()``.

        Plain values and tensors, which ``torch.load(weights_only=True)`` reads. Tensors are references, as torch's
        own are: copy them to keep them.
        """
        return self._state().to_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``; nothing else advances, and gradients in flight are dropped.

        Load the model's and the optimizer's own states too, in any order. A run folder goes on from the state's step:
        what it recorded from there on is replaced by what follows.

        Raises:
            ValueError: not a session's state, or that of another recipe or model, or one that the run in the run
                folder never reached.
        """
        state = SessionState.from_dict(state_dict)
        state.refuse_other(self._state())
        if self._folder is not None:
            self._events.extend(self._folder.go_on(state.applied))
        self.loss_scale_state, self.applied, self.skipped = state.scale, state.applied, state.skipped
        self._conversion.load_random_state(state.random)
        self._phases.reach(self.applied)
        self._conversion.load_histories(state.histories)
        for name, pair in self._masters().items():
            pair.load(state.masters[name])
        self._statistics.forget()
        self._clear_gradients()
        self._losses = []

    def _resident(self) -> Mapping[StorageKey, int]:
        return resident_storages(self.model, {"optimizer": self._kept}, self._kept_beside())

    def _kept_beside(self) -> dict[str, object]:
        """Tensors of the session beside those of model and optimizers, by what they are."""
        samples = () if self._watch is None else self._watch.tensors
        kept = self._conversion.kept_tensors()
        return {**kept, "copies of statistics": self._statistics.tensors, "samples of weights": samples}

    def _apply(self, params: Sequence[Tensor], measured: Measured) -> list[Event]:
        if self.clip_norm is not None and measured.total > self.clip_norm:
            multiply(params, self.clip_norm / measured.total)
        if self._watch is not None:
            idle = {id(p) for g in self.optimizer.param_groups for p in g["params"] if _is_zero(g.get("lr"))}
            moving = [p for p, norm in zip(params, measured.norms, strict=True) if norm > 0 and id(p) not in idle]
            self._watch.before_step(moving)
        self.optimizer.step()
        self._kept.write_back()
        self._conversion.commit_step()
        self._statistics.forget()
        step, self.applied = self.applied, self.applied + 1
        begun = self._phases.reach(self.applied)
        findings = () if self._watch is None else self._watch.after_step()
        events = [Event(step=step, name="update too small", message=f.message, site=f.site) for f in findings]
        return [*events, *(Event(step=step + 1, name="phase", message=message) for message in begun)]

    def _skip(self, params: Sequence[Tensor], measured: Measured, before: ScaleState) -> tuple[str, str]:
        self._conversion.discard_step()
        self._statistics.give_back()
        self.skipped += 1
        names = self._names()
        norms = {p: norm for p, norm in zip(params, measured.norms, strict=True) if not math.isfinite(norm)}
        bad = [("a parameter that is not the model's", norms[p]) for p in norms if p not in names]
        bad += [(name, norms[p]) for p, name in names.items() if p in norms]
        scaling = scaling_text(self.recipe.loss_scale, before, self.loss_scale_state)
        reason = skip_reason(bad, measured.losses, self.recipe.compute_dtype, scaling)
        return reason, bad[-1][0]

    def _with_gradients(self) -> list[Tensor]:
        """What the optimizer will update: its parameters that have a gradient."""
        self._kept.widen_gradients()
        params = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not self._losses and self.loss_scale != 1.0 and params:
            raise ValueError(
                f"step: the gradients did not come through session.backward(loss), which multiplies the loss by "
                f"{self.loss_scale:g}: replace loss.backward() by session.backward(loss), or call session.step(loss)"
            )
        if not params:
            what = "the loss does not reach its parameters" if self._losses else "call session.step(loss)"
            raise ValueError(f"step: no parameter of the optimizer has a gradient: {what}")
        return params

    def _adopt_writes(self) -> list[Event]:
        written = {id(p) for p in self._kept.adopt_writes()}
        message = "fp32 master of {} follows a write to the 16-bit weight from outside (a checkpoint without masters?)"
        names = [name for name, p in self.model.named_parameters() if id(p) in written]
        return [Event(step=self.applied, name="master follows", message=message.format(n), site=n) for n in names]

    def _names(self) -> dict[Tensor, str]:
        """Names of what the optimizer holds, in the model's registration order."""
        pairs = self._kept.pairs
        return {pairs[p].master if p in pairs else p: name for name, p in self.model.named_parameters()}

    def _clear_gradients(self) -> None:
        self._kept.clear_gradients()
        self._are_gradients_bad = False

    def _masters(self) -> dict[str, MasterPair]:
        return {name: self._kept.pairs[p] for name, p in self.model.named_parameters() if p in self._kept.pairs}

    def _state(self) -> SessionState:
        return SessionState(
            recipe=self.recipe.name,
            loss_scale_kind=self.recipe.loss_scale.kind,
            scale=self.loss_scale_state,
            random=self._conversion.random_state(),
            applied=self.applied,
            skipped=self.skipped,
            masters={name: pair.master.detach() for name, pair in self._masters().items()},
            histories=self._conversion.histories(),
        )

    def _tell_notes(self) -> None:
        events = [Event(step=0, name="note", message=note) for note in self.notes]
        if self._watch is not None and not self._watch.params:
            dtype = {"bf16": "torch.bfloat16"}.get(self.recipe.compute_dtype, "torch.float16")
            message = (
                f"recipe {self.recipe.name} keeps weights as they are, and none has 16 bits: all train in fp32; for "
                f"16-bit weights call model.to({dtype}) before the optimizer is built"
            )
            self.notes = (*self.notes, message)
            events.append(Event(step=0, name="no 16-bit weights", message=message))
        self._events.extend(events)
        if self._folder is not None:
            self._folder.write_events(events)

    def _refuse_unusable(self, what: str) -> None:
        if not self._is_open:
            raise ValueError(f"{what}: the session was restored; prepare the model again")
        if self._folder is not None:
            self._folder.refuse_earlier(what)


def _scaled(loss: Tensor, scale: float) -> Tensor:
    if scale == 1.0:
        return loss
    wide = loss if loss.dtype in (torch.float32, torch.float64) else loss.float()  # 16 bits may not hold the scale
    return wide * scale


def _is_zero(rate: Any) -> bool:
    """Whether a learning rate is 0; one that is a tensor is not brought to the host for it."""
    return not isinstance(rate, Tensor) and rate == 0


def _half_weights(session: Session) -> dict[str, nn.Parameter]:
    held = {id(p) for group in session.optimizer.param_groups for p in group["params"]}
    return {n: p for n, p in session.model.named_parameters() if p.dtype in HALF_DTYPES and id(p) in held}
