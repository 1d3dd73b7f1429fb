"""Replays skipped steps, and tells the first bad value by the name of its site."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from ...nn import Conversion
from .._finding import Finding
from .._step_watch import QuietWatch, StepFacts
from ._diagnosis import Circumstances, diagnose, not_reproduced, saturation_fault
from ._fault import LOSS, Fault
from ._lineage import Birth
from ._loss import birth_of_outputs, fault_of_loss
from ._range import ranges_of
from ._recording import MicroBatch, StepRecording
from ._replay import Replay, Seen, has_other_ranks, is_sharded
from ._scales import ScaleHistory
from ._sites import named_root

_COMPILED = "the model's calls were inside compiled code, which shows no arguments: call the module itself"
_SHARDED = (
    "the model is sharded, and a replay would talk to ranks that do not replay: call session.locate(...) on all ranks"
)
_REENTRANT = (
    "beside other ranks a step with reentrant checkpoints is not replayed: their passes cannot be kept from the hooks "
    "on gradients, as DDP's; use checkpoint(..., use_reentrant=False), or call session.locate(...) on all ranks"
)
_GONE = "replayed from the same arguments, random states and buffers, all gradients are finite"
_ELSEWHERE = f"{_GONE}: those of another rank are not, and its own finding names the site"
_OUTSIDE = "no gradient came back through the outputs of the model's calls"


class Locator(QuietWatch):
    """A ``StepWatch`` that replays a skipped step and tells its first fault.

    So it does with one that is applied though its loss (or, in a loop that is not a session's, a gradient) is not
    finite: before the weights change.

    A replay is a forward and a backward pass, seen operation by operation (some 10 times a pass), and nothing is
    changed by it. Of a row of skipped steps the 1st, 2nd, 4th, ... are replayed; where the first was ordinary, only
    the 8th, 16th, ..., unless the loss itself is not finite. Steps that are applied cost what ``StepRecording`` costs.

    Args:
        model: the root.
        conversion: of the model, or ``None``: found, if it has one.
        is_dynamic: whether a skipped step makes the loss scale smaller, so that overflows of it are ordinary.
        optimizers: names of all: where some of them step, others may by the same passes, which are kept for them.

    Attributes:
        recording: of the step that runs.
        last: the last fault; ``None`` before the first.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> locator = Locator(model)
        >>> model(torch.full((1, 2), torch.inf)).sum().backward()
        >>> print(locator.locate(step=0).reason)
        inf in <input> (args[0])
        >>> locator.close()
    """

    def __init__(
        self,
        model: nn.Module,
        conversion: Conversion | None = None,
        *,
        is_dynamic: bool = True,
        optimizers: Iterable[str] = (),
    ) -> None:
        self.recording = StepRecording(model, conversion)
        self._optimizers = frozenset(optimizers)
        self.last: Fault | None = None
        self._scales, self._is_dynamic = ScaleHistory(), is_dynamic
        self._histories: dict[str, ScaleHistory] = {}  # by the optimizers that step: each that does so by turns has one
        self._unfit: dict[str, int] = {}  # applied steps in a row that were not wholly finite, likewise
        self._found: tuple[Finding, ...] = ()

    def before_update(self, facts: StepFacts) -> None:
        """A step that is not wholly finite, and is applied, is replayed while the weights are as they were."""
        bad = [loss for _, loss in facts.losses if not math.isfinite(loss)]
        if facts.is_finite and not bad:
            self._unfit.pop(_who(facts), None)
            return
        count = self._unfit[_who(facts)] = self._unfit.get(_who(facts), 0) + 1
        if count & (count - 1) or self._found:  # only the 1st, 2nd, 4th, ... of a row
            return
        if facts.is_finite:
            self.last = self._locate_loss(bad[0], facts.step, _scale(facts))
        else:
            self.locate(step=facts.step, scale=_scale(facts), losses_are_finite=not bad)
        self._found = () if self.last is None else (self.last.finding(),)

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step was applied: its recording is forgotten; what was found before."""
        self._scales_of(facts).apply(_scale(facts))
        self._end(facts)
        found, self._found = self._found, ()
        return found

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step is replayed, if it is not one of a row; what was found."""
        self._scales_of(facts).skip(_scale(facts))
        finite = all(math.isfinite(loss) for _, loss in facts.losses)
        try:
            if not self._scales.deserves_replay(losses_are_finite=finite):
                return ()
            fault = self.locate(step=facts.step, scale=_scale(facts), losses_are_finite=finite)
        finally:
            self._end(facts)
        self._scales.judge(is_ordinary=fault.is_ordinary)
        return (fault.finding(),)

    def dropped(self) -> None:
        """What was recorded is forgotten."""
        self._found = ()
        self.recording.forget()

    def failed(self, error: BaseException) -> None:
        """What was recorded is forgotten."""
        self.recording.forget()

    def close(self) -> None:
        """Take the hooks off the model."""
        self.recording.close()

    def state_dict(self) -> dict[str, Any]:
        """What it remembers of the steps before, as JSON can hold it."""
        histories = {name: history.state_dict() for name, history in self._histories.items()}
        return {"scales": histories, "unfit": dict(self._unfit)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._histories = {name: ScaleHistory() for name in state["scales"]}
        for name, history in self._histories.items():
            history.load_state_dict(state["scales"][name])
        self._unfit = {name: int(count) for name, count in state["unfit"].items()}

    def _end(self, facts: StepFacts) -> None:
        """What was recorded is forgotten, at once or with the next pass."""
        if self._optimizers <= set(facts.optimizers):
            self.recording.forget()
        else:
            self.recording.end()

    def _scales_of(self, facts: StepFacts) -> ScaleHistory:
        """The history of those who step now; from now on it is the one that is looked at."""
        self._scales = self._histories.setdefault(_who(facts), ScaleHistory())
        return self._scales

    def locate(self, *, step: int, scale: float | None = None, losses_are_finite: bool = True) -> Fault:
        """Replay what was recorded.

        Args:
            step: applied steps before it.
            scale: of the loss; where it is above 1, an overflow of the backward pass is tried at 1. ``None``: it is not
                known, and neither blamed nor excluded.
            losses_are_finite: whether the losses of the step are.

        Returns:
            The first fault; one without a site where it did not come again.
        """
        self.last = self._locate(step, scale, losses_are_finite)
        return self.last

    def _locate(self, step: int, scale: float | None, losses_are_finite: bool) -> Fault:
        replay = Replay(self.recording)
        why_not = self._refusal(replay)
        if why_not:
            return not_reproduced(why_not, step)
        saturated: Fault | None = None
        outside: Fault | None = None
        for batch in replay.passes:
            try:
                seen = replay.watched(batch)
            except Exception as error:
                return not_reproduced(_raised(error), step)
            birth = first_birth(seen)
            if birth is not None:
                fault = diagnose(birth, self._circumstances(replay, batch, step, scale, losses_are_finite))
                if fault.site != LOSS or not _is_followed(batch, replay.passes):
                    return fault
                outside = outside or fault  # unless another part of the model gave it this gradient
            if saturated is None and seen.watch.roles.saturations:
                saturated = saturation_fault(seen.watch.roles.saturations[0], step)
        return outside or saturated or not_reproduced(_ELSEWHERE if has_other_ranks() else _GONE, step)

    def _locate_loss(self, loss: float, step: int, scale: float) -> Fault:
        """Of a step whose gradients are finite, and whose loss is not."""
        replay = Replay(self.recording)
        why_not = self._refusal(replay)
        if why_not:
            return not_reproduced(why_not, step)
        seen: list[Seen] = []
        for batch in replay.passes:
            try:
                seen.append(replay.watched(batch))
            except Exception as error:
                return not_reproduced(_raised(error), step)
            birth = birth_of_outputs(seen[-1])
            if birth is not None:
                return diagnose(birth, self._circumstances(replay, batch, step, scale, losses_are_finite=False))
        return fault_of_loss(loss, seen, step)

    def _refusal(self, replay: Replay) -> str:
        """Why there is nothing to replay, in words; empty where there is."""
        if is_sharded(self.recording.model):
            return _SHARDED
        if not replay.passes:
            return _OUTSIDE if self.recording.passes else _COMPILED
        return next(filter(None, (batch.changed() for batch in replay.passes)), "")

    def _circumstances(
        self, replay: Replay, batch: MicroBatch, step: int, scale: float | None, losses_are_finite: bool
    ) -> Circumstances:
        return Circumstances(
            model=named_root(self.recording.model, self.recording.conversion),
            step=step,
            inputs=ranges_of((batch.args, batch.kwargs)),
            scale=scale,
            losses_are_finite=losses_are_finite,
            is_finite_at=lambda divisor: replay.is_finite_at(batch, divisor),
            looks_ordinary=self._is_dynamic and self._scales.looks_ordinary,
        )


def first_birth(seen: Seen) -> Birth | None:
    """The first fault of a replayed pass that reached a gradient; ``None`` where all gradients are finite."""
    lineage = seen.watch.lineage
    if not seen.bad:
        return None
    birth = lineage.first(seen.bad)
    if birth is None:  # the way to the gradient was not seen: a kernel past torch's dispatcher, sparse gradients
        births = [birth.root() for birth in lineage.all if birth.kind != "constant"]
        return min(births, key=lambda birth: birth.index, default=None)
    if birth.kind == "source" and birth.name.startswith("output gradient"):
        return lineage.first(seen.outputs) or birth
    return birth


def _is_followed(batch: MicroBatch, passes: Sequence[MicroBatch]) -> bool:
    """Whether another part of the model was called after this one."""
    return any(other.module is not batch.module for other in passes[passes.index(batch) + 1 :])


def _raised(error: Exception) -> str:
    """Why a replay that raised has shown nothing."""
    if has_other_ranks() and "use_reentrant" in str(error):
        return _REENTRANT
    return f"the replay raised {type(error).__name__}: {error}"


def _who(facts: StepFacts) -> str:
    return "+".join(facts.optimizers)


def _scale(facts: StepFacts) -> float:
    return max(facts.loss_scales.values(), default=facts.scale)
