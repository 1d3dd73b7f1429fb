"""What runs with and without a fault say of a guard."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ._drilled import FaultRun, HealthyRun, Rehearsed
from ._fault import Fault

#: Share of the mean loss that seed noise is at least: a few seeds may happen to lie closer than two runs ever do.
LEAST_NOISE = 0.005
#: Chance that a run without a fault lies beyond the noise, to one side or the other.
_LEVEL = 0.05


def seed_noise(losses: Sequence[float]) -> float:
    """How far a final loss may lie above another one of the same seed and still be within seed noise.

    The standard deviation of the losses without a fault over seeds, times the quantile of Student's t that 95 % of the
    cases lie within (4.30 for 3 seeds, 2.78 for 5, 2.26 for 10); at least 0.5 % of the mean loss.

    Args:
        losses: of runs without a fault, one a seed.

    Returns:
        That; NaN where one of them is not finite, or there is only one: then nothing is within the noise.

    Example:
        >>> round(seed_noise([2.50, 2.51, 2.52]), 4), round(seed_noise([2.52, 2.52, 2.52]), 4)
        (0.043, 0.0126)
    """
    from scipy.special import stdtrit  # costs a moment, which only a drill should pay

    if len(losses) < 2 or not all(map(math.isfinite, losses)):
        return math.nan
    spread = statistics.stdev(losses) * float(stdtrit(len(losses) - 1, 1 - _LEVEL / 2))
    return max(spread, LEAST_NOISE * abs(statistics.fmean(losses)))


def judge_healthy(seed: int, run: Rehearsed) -> HealthyRun:
    """What a guard said of a run that had no fault."""
    return HealthyRun(
        seed=seed,
        loss=run.loss,
        triggers=tuple(incident.trigger for incident in run.incidents),
        seconds=run.seconds,
        folder=run.folder,
    )


def judge_fault(
    fault: Fault, seed: int, *, guarded: Rehearsed, alone: Rehearsed, healthy: HealthyRun, noise: float
) -> FaultRun:
    """What a guard made of a fault.

    Args:
        fault: that was planted.
        seed: of the runs.
        guarded: with the fault and the guard.
        alone: with the fault, without the guard.
        healthy: without the fault, from the same seed.
        noise: of seeds.
    """
    planted = guarded.calls if guarded.planted is None else guarded.planted
    told = list(zip(guarded.seen, guarded.incidents, strict=True))
    after = [(call, incident) for call, incident in told if call >= planted]
    call, first = after[0] if after else (None, None)
    harmless = alone.loss <= healthy.loss + noise
    recovered = guarded.loss <= healthy.loss + noise
    return FaultRun(
        fault=fault.name,
        seed=seed,
        planted=planted,
        within=fault.within,
        detected=None if call is None else call - planted,
        trigger="" if first is None else first.trigger,
        site="" if first is None else first.site,
        rungs=tuple(incident.rung for _, incident in after),
        false_alarms=len(told) - len(after),
        loss=guarded.loss,
        loss_without_fault=healthy.loss,
        loss_without_guard=alone.loss,
        recovered=recovered,
        harmless=harmless,
        worse=_is_worse(guarded.loss, alone.loss, noise, harmless=harmless),
        lost_steps=max(0, guarded.calls - guarded.applied),
        lost_seconds=sum(incident.lost_seconds for incident in guarded.incidents),
        ended=guarded.ended,
        folder=guarded.folder,
    )


def _is_worse(loss: float, alone: float, noise: float, *, harmless: bool) -> bool:
    """A run that was stopped is worse only than one that would have come to a good end."""
    if math.isnan(loss):
        return harmless
    return loss > alone + noise  # never, where the other is NaN
