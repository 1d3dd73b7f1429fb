"""What an applied step does, in order, and what a skipped one gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ..monitor import UpdateWatch
from ..nn import Conversion
from ..optim import KeptWeights
from ._averages import Averages
from ._idle import idle_parameters
from ._phases import PhaseKeeper
from ._result import Event
from ._scaled_gradients import ScaledGradients
from ._schedules import Schedules
from ._statistics import StatisticsKeeper
from ._verdict import Verdict

#: Within them a factor and its products with gradients keep their bits in fp32.
_FACTORS = (2.0**-100, 2.0**100)


@dataclass(kw_only=True)
class Applier:
    """Everything that advances with applied steps only.

    Attributes:
        gradients: of the model, and what they are multiplied by.
        clip_norm: largest norm of the gradients, or ``None``.
        conversion: whose random bits and histories a skipped step does not use up.
        statistics: buffers that a skipped step gives back.
        phases: of the recipe.
        schedules: of learning rates.
        watches: of updates that are too small, by the optimizer's name: each counts its own steps.
        averages: of the weights.
    """

    gradients: ScaledGradients
    clip_norm: float | None
    conversion: Conversion
    statistics: StatisticsKeeper
    phases: PhaseKeeper
    schedules: Schedules
    watches: Mapping[str, UpdateWatch]
    averages: Averages

    def apply(
        self, verdict: Verdict, chosen: Mapping[str, KeptWeights], step: int, *, clip_to: float | None = None
    ) -> list[Event]:
        """Clip, update the weights of the optimizers that have gradients, and advance what follows them.

        Args:
            verdict: a finite one.
            chosen: optimizers that are to step.
            step: applied steps before it.
            clip_to: a norm that this step is clipped to, where it is below ``clip_norm``.
        """
        stepping = {name: chosen[name] for name in verdict.steps if name in chosen and verdict.norms[name]}
        factor = self._factor(verdict.norm, clip_to)
        watches = [self.watches[name] for name in stepping if name in self.watches]
        moving = _moving(verdict, stepping) if watches else []
        for watch in watches:
            watch.before_step(moving)
        for kept in stepping.values():
            kept.applied = step  # stochastic roundings draw by it
            kept.apply(factor)
        self.conversion.commit_step()
        self.statistics.forget()
        self.averages.advance(verdict.steps)
        begun = [*self._decayed(stepping, step + 1), *self.phases.reach(step + 1)]
        findings = [finding for watch in watches for finding in watch.after_step()]
        self.schedules.advance(verdict.steps)
        events = [Event(step=step, name="update too small", message=f.message, site=f.site) for f in findings]
        return [*events, *(Event(step=step + 1, name="phase", message=message) for message in begun)]

    def _decayed(self, stepping: Mapping[str, KeptWeights], applied: int) -> list[str]:
        """What begins where learning rates fall; they are read where a phase waits for it: one may be on a device."""
        if not self.phases.waits_for("decay"):
            return []
        rates = {name: float(kept.optimizer.param_groups[0]["lr"]) for name, kept in stepping.items()}
        return self.phases.saw_rates(rates, applied)

    def skip(self, step: int) -> list[Event]:
        """Give back what the forward and backward passes have used up or changed; tell what could not be."""
        self.conversion.discard_step()
        message = "{} was changed by a skipped step, and there was no copy of it to give back"
        return [
            Event(step=step, name="buffer not given back", message=message.format(name), site=name)
            for name in self.statistics.give_back()
        ]

    def _factor(self, norm: float, clip_to: float | None) -> float:
        """What the gradients are to be multiplied by: the loss scale out, and down to the clip norm."""
        most = min((limit for limit in (self.clip_norm, clip_to) if limit is not None), default=norm)
        clip = most / norm if norm > most else 1.0
        factor = clip / self.gradients.scale
        if _FACTORS[0] <= factor <= _FACTORS[1]:
            return factor
        self.gradients.unscale()
        return clip


def _moving(verdict: Verdict, stepping: Mapping[str, KeptWeights]) -> list[Tensor]:
    """Parameters that an update is expected to move."""
    idle = idle_parameters(stepping.values())
    return [p for name in stepping for p, norm in verdict.norms[name].items() if norm > 0 and id(p) not in idle]
