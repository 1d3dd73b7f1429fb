"""One training run: backward, unscale, finite check, clip, update, zero_grad; and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from ..nn import Conversion, is_without_session
from ..optim import KeptWeights, WeightAverage
from ..specs import Recipe
from ._applying import Applier
from ._averages import Averages
from ._blame import no_gradient_reason
from ._checks import check_loss
from ._dropping import Dropper
from ._full_values import FullValues
from ._in_flight import InFlight
from ._memory_count import MemoryCounter
from ._optimizers import choose
from ._phases import PhaseKeeper
from ._result import Event, StepResult
from ._scaled_gradients import ScaledGradients, SetAside
from ._scales import DEFAULT, LossScales
from ._settings import Settings
from ._state_keeper import StateKeeper
from ._statistics import StatisticsKeeper
from ._step_report import StepReport
from ._text import plan_text, session_text
from ._verdict import Judge, Verdict
from ._viewable import Viewable
from ._windows import Windows
from .guarding import Ruling, RunStopped

#: What would take averages that are swapped in for the weights.
_TAKES_WEIGHTS = ("step", "save", "full_weight")


class Session(Viewable):
    """Made by ``prepare``; ties recipe, model, optimizers, loss scales and monitor together; ``print`` it to see them.

    Gradients are true gradients after every ``backward``: the loss scale is taken out at once, so that reading,
    adding and clipping them needs no care. Sums of those of 16-bit parameters are fp32.

    Attributes:
        model: the converted model.
        optimizers: by name; their groups may hold masters for 16-bit parameters.
        recipe: with ``auto`` resolved.
        clip_norm: largest norm of the gradients, or ``None``.
        schedules: learning-rate schedules that the session steps, by the optimizer's name.
        applied: steps that updated the weights.
        skipped: steps that did not.
        notes: what there was to tell at preparation; also in ``events``, in the audit, and printed with the session.
    """

    def __init__(
        self,
        model: nn.Module,
        conversion: Conversion,
        kept: Mapping[str, KeptWeights],
        recipe: Recipe,
        scales: LossScales,
        settings: Settings,
    ) -> None:
        super().__init__(model, kept, settings.folder)
        self.recipe, self.clip_norm, self.schedules = recipe, settings.clip_norm, settings.schedules
        self._conversion, self._scales, self._narrowed = conversion, scales, settings.narrowed
        self._statistics = StatisticsKeeper(model)
        self._watching, self._listeners, self._ranks = settings.watching, settings.listeners, settings.ranks
        self._report = StepReport(model, recipe, scales, settings.listeners, kept)
        self._in_flight = InFlight(conversion, self._statistics)
        self._gradients, self._windows = ScaledGradients(model, kept), Windows(kept)
        self._judge = Judge(
            kept=kept,
            windows=self._windows,
            scales=scales,
            ranks=settings.ranks,
            clips=self.clip_norm is not None,
            plan=plan_text(recipe, kept, self.clip_norm),
        )
        self._phases = PhaseKeeper(recipe, conversion, settings.total_steps)
        self._values = FullValues(model, kept)
        self._averages = Averages(model, kept, self._values)
        watches = self._values.update_watches() if recipe.weights == "true" else {}
        self._applier = Applier(
            averages=self._averages,
            gradients=self._gradients,
            clip_norm=self.clip_norm,
            conversion=conversion,
            statistics=self._statistics,
            phases=self._phases,
            schedules=settings.schedules,
            watches=watches,
        )
        self._dropper = Dropper(
            kept=kept, windows=self._windows, scales=scales, in_flight=self._in_flight, applier=self._applier
        )
        self._memory = MemoryCounter(model, kept, self._applier, recipe.name)
        self._states = StateKeeper(
            model=model,
            recipe=recipe,
            conversion=conversion,
            phases=self._phases,
            kept=kept,
            scales=scales,
            watches=watches,
            watching=self._watching,
            schedules=self.schedules,
            averages=self._averages,
        )
        conversion.begin_step()
        told = tuple(note for note in conversion.notes if not is_without_session(note))
        self.notes = (*told, *settings.notes, *self._phases.notes)
        self._tell([Event(step=0, name="note", message=note) for note in self.notes])

    def __str__(self) -> str:
        return session_text(self)

    def backward(
        self, loss: Tensor, name: str = DEFAULT, *, optimizer: str | None = None, retain_graph: bool = False
    ) -> None:
        """Add the gradients of ``loss`` to those that are there, through its loss scale.

        Call it for each micro-batch, or for each of several losses, then ``step()`` once.

        Args:
            loss: one number with a graph.
            name: each name has a loss scale of its own, made when it is first used. Where losses of different names
                are added, the gradients are looked at before, so that the one that overflows is told from the others.
            optimizer: name of the only optimizer whose gradients are added to; those of the others stay as they are.
            retain_graph: as torch's.

        Raises:
            TypeError: the loss is no tensor.
            ValueError: the loss is not one number, or has no graph; an optimizer of that name does not exist.
        """
        self._refuse_unusable("backward")
        self._backward(loss, name, choose(self._kept, optimizer), retain_graph=retain_graph)

    def step(
        self,
        loss: Tensor | None = None,
        zero_grad: bool = True,
        *,
        optimizer: str | None = None,
        name: str = DEFAULT,
        closure: object = None,
    ) -> StepResult:
        """Update the weights, or skip where a gradient is not finite; either is told.

        Order: backward (of ``loss``, if given), finite check of every gradient, norm, clip, optimizer step,
        rounding into 16-bit weights, averages, schedules, zero_grad. A skipped step changes no weight, optimizer state,
        running statistics or random offset of a cast; the scale of the loss at fault shrinks if it is dynamic. Where
        no parameter has a gradient nothing happens, and the result says so.

        Args:
            loss: one number with a graph; ``None`` after ``backward``.
            zero_grad: whether the gradients are cleared at the end. Those of a skipped step can be looked at, and
                are cleared by the next ``backward``: nothing can be added to them.
            optimizer: name of the only optimizer that steps, by its own gradients, norm and clipping; ``None``: all
                step as one. A ``loss`` that is given reaches the gradients of that one only.
            name: of ``loss``.
            closure: refused.

        Raises:
            ValueError: gradients that did not come through ``backward`` although a loss is scaled; a closure; an
                optimizer of that name does not exist; ranks that do not fit together.
            RunStopped: a guard has no rung left.
        """
        self._refuse_unusable("step")
        if closure is not None:
            check_loss(closure)
        chosen = choose(self._kept, optimizer)
        if loss is not None:
            self._backward(loss, name, chosen, keeps_scale=zero_grad)
        try:
            return self._step(chosen, name, zero_grad, has_loss=loss is not None)
        except RunStopped:
            raise
        except BaseException as error:
            self._fail("step", chosen, error)
            raise
        finally:
            self._gradients.unscale()

    def zero_grad(self) -> None:
        """Clear all gradients. What was backpropagated and not stepped is dropped, as if it had never been.

        Where a forward pass is in flight (it began after the last backward pass, or a graph was retained), what it has
        changed and used up stays with it: random bits and buffers of the dropped passes too then.
        """
        self._refuse_unusable("zero_grad")
        self._watching.dropped()
        self._dropper.drop()

    def average(self, decay: float, *, optimizer: str | None = None, name: str = "average") -> WeightAverage:
        """Follow the full weights by an exponential moving average, which advances on applied steps only.

        Args:
            decay: share of the average that each step keeps.
            optimizer: name of the only optimizer whose weights are averaged, after its steps; ``None``: all parameters.
            name: of the average, in the session's state.

        Returns:
            The average; ``with average.swapped_in():`` evaluates with it.

        Raises:
            ValueError: a decay out of its range, or a name that is taken.
        """
        self._refuse_restored("average")  # where an earlier run stands, an average is made before it is resumed
        return self._averages.make(name, decay, tuple(choose(self._kept, optimizer)))

    def restore(self) -> None:
        """Give the model its own classes and the optimizers the model's own parameters back; ends the session.

        Raises:
            ValueError: the model has been sharded since; nothing is changed then.
        """
        if not self._is_open:
            return
        self._conversion.restore()
        self._statistics.remove()
        self._watching.close()
        if self._narrowed is not None:
            self._narrowed.restore(*self._kept.values())
        for kept in self._kept.values():
            kept.restore()
        if self._folder is not None:
            self._folder.close()
        self._is_open = False

    def _backward(
        self,
        loss: Tensor,
        name: str,
        chosen: Mapping[str, KeptWeights],
        *,
        retain_graph: bool = False,
        keeps_scale: bool = False,
    ) -> None:
        check_loss(loss)
        scale = self._scales.begin(name)
        self._windows.begin_backward(chosen)
        for key in chosen:
            if self._windows[key].needs_check(name):
                self._judge.look(key)
        self._memory.begin_backward(loss, self.applied)
        self._watching.begin_backward(loss, name, scale)
        aside = SetAside({key: kept for key, kept in self._kept.items() if key not in chosen})
        try:
            self._gradients.backward(
                loss, scale, self._conversion.region(), retain_graph=retain_graph, keeps=keeps_scale
            )
        except BaseException as error:
            self._fail("backward", chosen, error)
            raise
        finally:
            aside.give_back()
        self._memory.end_backward()
        self._watching.end_backward()
        self._in_flight.end_backward(retains=retain_graph)
        self._windows.end_backward(name, loss, chosen, are_seen=not keeps_scale)

    def _step(self, chosen: Mapping[str, KeptWeights], name: str, zero_grad: bool, *, has_loss: bool) -> StepResult:
        # What was cleared on one side, the optimizer's or the model's, is cleared on both.
        gradients = {key: kept.gradients() for key, kept in chosen.items()}
        if not has_loss:
            self._windows.forget_dropped()
        events = self._values.adopt_writes(chosen, self.applied)
        verdict = self._judge.verdict(gradients, self._gradients.scale)
        if not verdict.steps:
            return self._pass_by(chosen, verdict, name, events)
        step = self.applied
        self._watching.begin_step(step, verdict, gradients, self._gradients.scale, self.loss_scales)
        ruling = self._guard.before_update(verdict, step) if verdict.is_finite else Ruling()
        if not verdict.is_finite:
            reason, found = self._skip(verdict, step)
            ruling = self._guard.after_skip(verdict, step, self._watching.located[1])
        elif ruling.holds:
            reason, found = self._hold(verdict, step, ruling)
        else:
            reason, found = "", self._update(verdict, chosen, step, ruling)
        events += found
        is_applied = self.applied > step
        self._end(chosen, is_applied, zero_grad)
        self._report.tell_events(events)
        if is_applied:
            clipped = self._guard.applied(ruling, self.applied)
            self._report.tell_events(clipped)
            events += clipped
        elif ruling.holds:
            reason = ruling.reason
            self._guard.act(ruling, step)
        return self._result(verdict, reason, name, events)

    def _update(self, verdict: Verdict, chosen: Mapping[str, KeptWeights], step: int, ruling: Ruling) -> list[Event]:
        loss_scales = self.loss_scales
        self._watching.before_update()
        events = self._applier.apply(verdict, chosen, step, clip_to=ruling.clip_to)
        self.applied += 1
        self._report.tell(step, verdict, loss_scales)
        events += self._watching.after_update(step, verdict)
        return events + self._decided(verdict, step)

    def _skip(self, verdict: Verdict, step: int) -> tuple[str, list[Event]]:
        """A gradient is not finite."""
        states, loss_scales = self._report.states(), self.loss_scales
        told = self._decided(verdict, step)
        self.skipped += 1
        self._report.tell(step, verdict, loss_scales)
        # Buffers, random bits and gradients are still as the passes left them: a replay starts from there.
        found = self._watching.skipped()
        skipped = self._report.skipped(verdict, states, step, self._watching.located)
        return skipped.message, [skipped, *found, *self._applier.skip(step), *told]

    def _hold(self, verdict: Verdict, step: int, ruling: Ruling) -> tuple[str, list[Event]]:
        """The guard leaves out a step that could be made: the loss scale is not at fault."""
        self.skipped += 1
        self._report.tell(step, replace(verdict, is_finite=False), self.loss_scales)
        self._watching.dropped()
        left_out = Event(step=step, name="left out", message=ruling.reason)
        return ruling.reason, [left_out, *self._applier.skip(step)]

    def _decided(self, verdict: Verdict, step: int) -> list[Event]:
        return [Event(step=step, name=told.name, message=told.message) for told in self._report.decide(verdict)]

    def _pass_by(
        self, chosen: Mapping[str, KeptWeights], verdict: Verdict, name: str, events: list[Event]
    ) -> StepResult:
        """No parameter has a gradient: what a loss that reached none has changed is given back, and it is told."""
        self._watching.dropped()
        if verdict.losses and not self._windows.has_losses(apart_from=chosen):
            events += self._applier.skip(self.applied)
        reason = no_gradient_reason(bool(verdict.losses))
        events.append(Event(step=self.applied, name="no gradient", message=reason))
        self._end(chosen, True, zero_grad=True)
        result = self._result(verdict, reason, name, events)
        if self._folder is not None:
            self._folder.write_events(events)
        return result

    def _result(self, verdict: Verdict, reason: str, name: str, events: list[Event]) -> StepResult:
        self._events.extend(events)
        return self._report.result(verdict, reason, name, events)

    def _end(self, chosen: Mapping[str, KeptWeights], is_finite: bool, zero_grad: bool) -> None:
        self._memory.end_step()
        self._in_flight.end_step()
        self._windows.end(chosen, is_finite=is_finite, zero_grad=zero_grad)

    def _settle(self) -> None:
        if not self._windows.has_losses():
            self._conversion.begin_step()
            self._statistics.forget()

    def _drop_gradients(self) -> None:
        self._dropper.forget()

    def _fail(self, what: str, chosen: Mapping[str, KeptWeights], error: BaseException) -> None:
        self._memory.end_step()
        self._watching.failed(error)
        self._tell(self._dropper.fail(what, chosen, error, self.applied))

    def _refuse_unusable(self, what: str) -> None:
        super()._refuse_unusable(what)
        if what in _TAKES_WEIGHTS:
            self._averages.refuse_swapped_in(what)
