"""The training loss as it ends, and how soon a recipe reaches what the baseline ends at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median

from ._types import StepRecord

#: What the mean training loss of the last tenth of the steps is called, among the metrics of the workload.
SMOOTHED_LOSS = "smoothed_loss"


@dataclass(frozen=True, kw_only=True)
class TimeToQuality:
    """How many steps a recipe needs for the loss that the baseline ends at.

    Both losses are means over a tenth of the steps; a run's steps are those until that mean is first as low as the
    baseline's last one, under the same seed.

    Attributes:
        per_seed: the recipe's steps over the baseline's; infinite where it did not come so low.

    Example:
        >>> found = TimeToQuality(per_seed={0: 1.1, 1: 1.3, 2: float("inf")})
        >>> found.steps_ratio, found.reached, round(found.speed_up(0.5), 2)
        (1.3, 2, 1.54)
    """

    per_seed: Mapping[int, float] = field(default_factory=dict[int, float])

    @property
    def reached(self) -> int:
        """Seeds under which the loss was reached."""
        return sum(map(math.isfinite, self.per_seed.values()))

    @property
    def steps_ratio(self) -> float | None:
        """Median over seeds; ``None`` where half of them or more did not reach it."""
        ratio = median(self.per_seed.values()) if self.per_seed else math.inf
        return ratio if math.isfinite(ratio) else None

    def speed_up(self, time_ratio: float | None) -> float | None:
        """How many times sooner the loss is reached, where a step takes this much of the baseline's."""
        return None if self.steps_ratio is None or not time_ratio else 1 / (time_ratio * self.steps_ratio)


def smoothed(steps: Mapping[int, StepRecord], width: int) -> dict[int, float]:
    """The mean loss of each ``width`` recorded steps in a row, by the number of steps taken at its end.

    Infinite where a loss is not finite, or none is known.
    """
    numbers = sorted(steps)
    losses = [steps[number].curve_loss for number in numbers]
    sums = list(accumulate((loss if math.isfinite(loss) else 0.0 for loss in losses), initial=0.0))
    lacking = list(accumulate((not math.isfinite(loss) for loss in losses), initial=0))
    means: dict[int, float] = {}
    for end in range(width, len(losses) + 1):
        is_whole = lacking[end] == lacking[end - width]
        means[numbers[end - 1] + 1] = (sums[end] - sums[end - width]) / width if is_whole else math.inf
    return means


def final_losses(steps: Mapping[int, Mapping[int, StepRecord]], planned: int) -> dict[int, float]:
    """By seed, the mean loss of the last tenth of the steps; of the runs that took them all with finite losses."""
    ends = {seed: smoothed(own, _width(own))[planned] for seed, own in steps.items() if own and max(own) + 1 == planned}
    return {seed: loss for seed, loss in ends.items() if math.isfinite(loss)}


def time_to_quality(
    steps: Mapping[int, Mapping[int, StepRecord]], baseline: Mapping[int, Mapping[int, StepRecord]], planned: int
) -> TimeToQuality | None:
    """How soon a recipe reaches the baseline's final loss; ``None`` without a seed that both have run.

    A recipe's run that ended early, as one that diverged, has not reached what it had not reached by then.
    """
    found: dict[int, float] = {}
    for seed, final in final_losses(baseline, planned).items():
        if steps.get(seed):
            width = _width(baseline[seed])
            found[seed] = _steps_until(final, steps[seed], width) / _steps_until(final, baseline[seed], width)
    return TimeToQuality(per_seed=found) if found else None


def _steps_until(target: float, steps: Mapping[int, StepRecord], width: int) -> float:
    """Steps taken when the smoothed loss is first as low; infinite if it never is."""
    return next((float(taken) for taken, loss in smoothed(steps, width).items() if loss <= target), math.inf)


def _width(steps: Mapping[int, StepRecord]) -> int:
    """A tenth of a whole run's recorded steps; a script may record but some."""
    return max(1, len(steps) // 10)
