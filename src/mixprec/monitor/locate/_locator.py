"""Replays skipped steps, and tells the first bad value by the name of its site."""

from __future__ import annotations

import math

from torch import nn

from ...nn import Conversion
from .._finding import Finding
from .._step_watch import QuietWatch, StepFacts
from ._diagnosis import Circumstances, diagnose, not_reproduced, saturation_fault
from ._fault import Fault
from ._lineage import Birth
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

    A replay is a forward and a backward pass, seen operation by operation (some 10 times a pass), and nothing is
    changed by it. Of a row of skipped steps the 1st, 2nd, 4th, ... are replayed; where the first was ordinary, only
    the 8th, 16th, ..., unless the loss itself is not finite. Steps that are applied cost what ``StepRecording`` costs.

    Args:
        model: the root.
        conversion: of the model, or ``None``: found, if it has one.
        is_dynamic: whether a skipped step makes the loss scale smaller, so that overflows of it are ordinary.

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

    def __init__(self, model: nn.Module, conversion: Conversion | None = None, *, is_dynamic: bool = True) -> None:
        self.recording = StepRecording(model, conversion)
        self.last: Fault | None = None
        self._scales, self._is_dynamic = ScaleHistory(), is_dynamic

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step was applied: its recording is forgotten."""
        self._scales.apply(_scale(facts))
        return self.recording.after_update(facts)

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step is replayed, if it is not one of a row; what was found."""
        self._scales.skip(_scale(facts))
        finite = all(math.isfinite(loss) for _, loss in facts.losses)
        try:
            if not self._scales.deserves_replay(losses_are_finite=finite):
                return ()
            fault = self.locate(step=facts.step, scale=_scale(facts), losses_are_finite=finite)
        finally:
            self.recording.forget()
        self._scales.judge(is_ordinary=fault.is_ordinary)
        return (fault.finding(),)

    def dropped(self) -> None:
        """What was recorded is forgotten."""
        self.recording.forget()

    def failed(self, error: BaseException) -> None:
        """What was recorded is forgotten."""
        self.recording.forget()

    def close(self) -> None:
        """Take the hooks off the model."""
        self.recording.close()

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
        for batch in replay.passes:
            try:
                seen = replay.watched(batch)
            except Exception as error:
                if has_other_ranks() and "use_reentrant" in str(error):
                    return not_reproduced(_REENTRANT, step)
                return not_reproduced(f"the replay raised {type(error).__name__}: {error}", step)
            birth = first_birth(seen)
            if birth is not None:
                return diagnose(birth, self._circumstances(replay, batch, step, scale, losses_are_finite))
            if saturated is None and seen.watch.roles.saturations:
                saturated = saturation_fault(seen.watch.roles.saturations[0], step)
        gone = _ELSEWHERE if has_other_ranks() else _GONE
        return not_reproduced(gone, step) if saturated is None else saturated

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


def _scale(facts: StepFacts) -> float:
    return max(facts.loss_scales.values(), default=facts.scale)
