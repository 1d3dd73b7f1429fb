"""Runs a bad step again, watched, and names where it went wrong first."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ...nn import ROOT, Conversion, has_compiled_parts
from .._finding import Finding
from .._step_watch import StepFacts
from ._cast_watch import CastWatch, limit_of_cast
from ._causes import cause_of
from ._fault import LOSS, Fault
from ._recording import StepRecording
from ._replay import Replayed, replay
from ._values import facts_of, is_finite, limit_of
from ._watch_mode import Candidate, FiniteWatch
from ._weights import bad_input, bad_weight, huge_input

#: Causes that are about the end of a format.
_BEYOND = ("activation overflow", "gradient overflow", "hard-coded mask", "saturated delayed scale")
_OVERFLOWS = ("activation overflow", "gradient overflow", "hard-coded mask")


@dataclass(frozen=True, kw_only=True)
class NotReproduced:
    """A bad step that could not be run again, or was good when it was; no site is guessed.

    Attributes:
        step: applied steps before it.
        reason: why.
    """

    step: int
    reason: str

    def __str__(self) -> str:
        return f"not reproduced: {self.reason}"

    def finding(self) -> Finding:
        """It as a finding."""
        return Finding(step=self.step, name="not reproduced", severity="warning", message=str(self))


class Locator(StepRecording):
    """Records each step and, where one is bad, runs it again to name the first bad tensor; a ``StepWatch``.

    The second run is watched operator by operator and leaves everything as it was: weights, gradients, buffers, random
    states. Where steps are skipped one after another for the same ordinary reason (a dynamic loss scale on its way
    down), only the first is run again.

    Args:
        model: the root.
        conversion: of it, if it is converted.
        is_dynamic: whether the loss scale shrinks by itself.

    Attributes:
        last: what was found last.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        >>> locator = Locator(model)
        >>> model(torch.full((1, 1), 3e38).mul(3)).sum().backward()
        >>> print(locator.locate(step=0))
        inf in <input> (argument 0)
        >>> locator.close()
    """

    def __init__(
        self, model: nn.Module, conversion: Conversion | None = None, is_dynamic: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(model)
        self._conversion, self._is_dynamic = conversion, is_dynamic
        self.last: Fault | NotReproduced | None = None
        self._streak: Fault | None = None
        self._told: tuple[str, str] | None = None  # one event is told once

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Run the step again; what was found."""
        if self._streak is not None:
            found: Fault | NotReproduced = replace(self._streak, step=facts.step)
        else:
            scale = max(facts.loss_scales.values(), default=1.0)
            losses = [value for _, value in facts.losses]
            found = self.locate(step=facts.step, scale=scale, losses=losses)
        self._streak = found if isinstance(found, Fault) and found.is_ordinary else None
        self.last = found
        self.forget()
        finding = found.finding()
        is_new, self._told = (finding.name, finding.site) != self._told, (finding.name, finding.site)
        return (finding,) if is_new else ()

    def before_update(self, facts: StepFacts) -> None:
        """The step was good."""
        self._streak = self._told = None
        self.forget()

    def locate(self, *, step: int, scale: float = 1.0, losses: list[float] | None = None) -> Fault | NotReproduced:
        """Run what was recorded since the last applied step again.

        Args:
            step: applied steps before it.
            scale: what the losses were multiplied by.
            losses: their values, where they are known.
        """
        reason = self._why_not()
        if reason:
            return NotReproduced(step=step, reason=reason)
        inputs = [batch.tensors for batch in self.batches]
        fault = bad_input(inputs, step) or bad_weight(dict(self.model.named_parameters()), step)
        if fault is not None:
            return fault
        watch = FiniteWatch(self.model)
        casts = CastWatch(watch)
        again = replay(self, self._conversion, watched=lambda: self._watched(watch, casts))
        candidate = self._culprit(watch, again)
        if again.is_finite and candidate is None:
            return saturation_of(casts, step) or NotReproduced(
                step=step, reason="the step was finite when it was run again"
            )
        if candidate is None:
            return self._of_the_loss(step, again, scale, losses or [])
        fault = fault_of(step, candidate)
        if fault.cause in _OVERFLOWS and (huge := huge_input(inputs, step)) is not None:
            return huge
        return self._judged(fault, again, scale) if fault.direction == "backward" else fault

    def _why_not(self) -> str:
        if not self.batches:
            compiled = has_compiled_parts(self.model)
            return (
                "the model is compiled, and compiled code records nothing: session.locate(lambda: loss) with the model "
                "that was not compiled looks into the step"
                if compiled
                else "no forward pass of the model was recorded"
            )
        if not self.is_whole:
            return f"the step has more than {self.limit} micro-batches"
        for number, batch in enumerate(self.batches):
            if not batch.is_unchanged:
                return f"an argument of the model was changed in place after micro-batch {number}"
        if not any(batch.gradients for batch in self.batches):
            return "no gradient came back to the model's outputs"
        return ""

    def _watched(self, watch: FiniteWatch, casts: CastWatch) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(nullcontext() if self._conversion is None else self._conversion.watched_by(casts))
        stack.enter_context(watch)
        return stack

    def _culprit(self, watch: FiniteWatch, again: Replayed) -> Candidate | None:
        """Whose doing a bad output is, else a bad gradient; nobody's, where a bad gradient came in from the loss."""
        if again.bad_outputs:
            return watch.culprit_of([o for _, o in again.bad_outputs]) or _first(watch.candidates, "forward")
        if again.bad_gradients:
            return None
        bad = [g for g in again.gradients.values() if not is_finite(g)]
        return watch.culprit_of(bad) or (watch.candidates[0] if bad and watch.candidates else None)

    def _judged(self, fault: Fault, again: Replayed, scale: float) -> Fault:
        """Whether an overflow of the backward pass is the loss scale's doing, and an ordinary one."""
        overflows = fault.cause == "gradient overflow" or fault.kind != "NaN"
        if scale <= 1.0 or not overflows:
            return fault
        if not replay(self, self._conversion, factor=1.0 / scale).is_finite:
            return fault
        return replace(fault, cause="loss scale too high", is_ordinary=self._is_dynamic(), detail=f"it is {scale:g}")

    def _of_the_loss(self, step: int, again: Replayed, scale: float, losses: list[float]) -> Fault | NotReproduced:
        if not again.bad_gradients:
            return NotReproduced(step=step, reason="what is not finite was made where no operator could be seen")
        number, output, gradient = again.bad_gradients[0]
        facts = facts_of(gradient)
        is_good = bool(losses) and all(map(math.isfinite, losses))
        scaled = is_good and scale > 1.0 and not facts.nans
        return Fault(
            step=step,
            site=LOSS,
            operation="",
            direction="backward",
            operand="gradient of the output",
            kind=facts.kind,
            made=facts,
            operands=(("output", facts_of(output)), ("gradient", facts)),
            cause="loss scale too high" if scaled else "loss",
            is_ordinary=scaled and self._is_dynamic(),
            micro_batch=number,
        )


def _first(candidates: list[Candidate], direction: str) -> Candidate | None:
    return next((c for c in candidates if c.made.direction == direction), None)


def fault_of(step: int, candidate: Candidate, *, kind: str = "", cause: str = "") -> Fault:
    made = candidate.made
    is_cast = made.operands != () and made.origin == "" and "[" in made.operation
    text = made.result.dtype if not is_cast else made.operation
    limit = limit_of_cast(made.operation) if is_cast else limit_of(made.result.dtype)
    why = cause or cause_of(made)
    return Fault(
        step=step,
        site=candidate.site or ROOT,
        operation=made.operation,
        direction=made.direction,
        operand=candidate.operand,
        kind=kind or made.result.kind,
        made=made.result,
        operands=made.operands,
        limit=limit if why in _BEYOND else None,
        format=text,
        cause=why,
        detail=f"in the gradient of `{made.origin}`" if made.origin else "",
    )


def saturation_of(casts: CastWatch, step: int) -> Fault | None:
    """The worst saturated cast, where the step itself is finite."""
    if not casts.saturated:
        return None
    share, candidate = casts.saturated[0]
    fault = fault_of(step, candidate, kind="saturated", cause="saturated delayed scale")
    return replace(fault, detail=f"{100 * share:.3g} % of the elements")
