"""Paired differences over seeds, and what they can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from ._bootstrap import bootstrap_interval
from ._pair_plan import ERROR, FIRST_LOOK, PairPlan, looks, spent
from ._student import chance_beyond, two_sided

#: Error of the interval of a number of seeds that was chosen before the runs.
FIXED_ERROR = 0.05
#: What is asked of a number of pairs that is told: to find the gap in four of five comparisons.
POWER = 0.8
_MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Differences to the baseline, paired by seed (both saw the same data from the same weights).

    Attributes:
        per_seed: recipe minus baseline, by seed.
        plan: by which pairs were added until the gap was resolved; ``None`` where the seeds were chosen beforehand.

    Example:
        >>> gap = Gap(per_seed={0: 0.010, 1: 0.012, 2: 0.011})
        >>> round(gap.mean, 4), round(gap.sd, 4), gap.resolved
        (0.011, 0.001, True)
        >>> f"{gap.resolvable():.4f}", gap.pairs_needed(0.001)
        ('0.0033', 10)
        >>> Gap(per_seed={0: 0.010}).sd is None
        True
    """

    per_seed: Mapping[int, float] = field(default_factory=dict[int, float])
    plan: PairPlan | None = None

    @property
    def seeds(self) -> int:
        """How many seeds were paired."""
        return len(self.per_seed)

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` without any."""
        return mean(self.per_seed)

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds, with n - 1; ``None`` below two seeds."""
        center = self.mean
        if center is None or self.seeds < 2:
            return None
        return math.sqrt(sum((gap - center) * (gap - center) for gap in self.per_seed.values()) / (self.seeds - 1))

    @property
    def confidence(self) -> float:
        """Of the interval: 0.95, or 0.975 for all looks of a plan together."""
        return 1 - (FIXED_ERROR if self.plan is None else ERROR)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of the mean (Student's t, n - 1 degrees of freedom): 95 %.

        With a plan that of its look, 97.5 % for all looks together. ``None`` below two seeds (with a plan: three), and
        where a difference is not finite.
        """
        center, sd, critical = self.mean, self.sd, self._critical()
        if center is None or sd is None or critical is None or not math.isfinite(center) or not math.isfinite(sd):
            return None
        half = critical * sd / math.sqrt(self.seeds)
        return center - half, center + half

    @cached_property
    def bootstrap(self) -> tuple[float, float] | None:
        """95 % bootstrap-t interval of the mean, which assumes no distribution and knows of no looks.

        To be read beside the other, which decides. ``None`` below four seeds, without a spread, and where a difference
        is not finite; under eight seeds it covers less often, or reaches farther, than it says.
        """
        values = list(self.per_seed.values())
        return bootstrap_interval(values) if all(map(math.isfinite, values)) else None

    @property
    def resolved(self) -> bool:
        """Whether the seeds can tell the gap from none: its interval leaves 0 out."""
        interval = self.interval
        return interval is not None and not interval[0] <= 0 <= interval[1]

    @property
    def identical(self) -> bool:
        """Whether every seed gave exactly the baseline's value."""
        return self.seeds > 0 and all(gap == 0 for gap in self.per_seed.values())

    def resolvable(self, power: float = POWER) -> float | None:
        """The smallest true gap that as many pairs find with this chance, at the spread that was measured.

        It is also how small a tolerance they show a recipe without any gap to be within. The spread itself is an
        estimate: of three pairs, the true one may well be twice as large.

        Args:
            power: the chance, above the interval's error and below 1.

        Returns:
            ``None`` where there is no interval.

        Raises:
            ValueError: a chance that no test has.
        """
        self._check_power(power)
        sd, critical = self.sd, self._critical()
        if sd is None or critical is None or self.interval is None:
            return None
        return _smallest_effect(self.seeds, critical, power) * sd

    def pairs_needed(self, gap: float, power: float = POWER) -> int | None:
        """How many pairs in all find a true gap of this size with this chance, at the spread that was measured.

        With a plan it is the budget of a new one, counted as if all was left to its last look: somewhat too many.

        Args:
            gap: in the metric's units, not 0.
            power: the chance, above the interval's error and below 1.

        Returns:
            ``None`` where there is no interval, or a million would not do.

        Raises:
            ValueError: a gap of 0 or one that is not finite, or a chance that no test has.
        """
        self._check_power(power)
        if gap == 0 or not math.isfinite(gap):
            raise ValueError(f"gap is {gap}, expected a finite number other than 0: no number of pairs tells it from 0")
        sd = self.sd
        if sd is None or self.interval is None:
            return None
        fewest = 2 if self.plan is None else FIRST_LOOK
        effect = math.inf if sd == 0 else abs(gap) / sd

        def enough(pairs: int) -> bool:
            return effect == math.inf or _finds(effect, pairs, self._planned_critical(pairs)) >= power

        high = fewest
        while not enough(high):
            if high >= _MOST:
                return None
            high *= 2
        low = max(fewest - 1, high // 2)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _check_power(self, power: float) -> None:
        if not 1 - self.confidence < power < 1:
            raise ValueError(f"power is {power}, expected above {1 - self.confidence:.3g} and below 1, e.g. {POWER}")

    def _critical(self) -> float | None:
        """How many standard errors the interval reaches."""
        if self.plan is not None:
            return self.plan.at(self.seeds)
        return two_sided(FIXED_ERROR, self.seeds - 1) if self.seeds > 1 else None

    def _planned_critical(self, pairs: int) -> float:
        """The same of another comparison with so many pairs; of a plan's last look a bound from above.

        The last look has what the earlier ones left of the error, and looks that tell the same do not spend it twice.
        """
        if self.plan is None:
            return two_sided(FIXED_ERROR, pairs - 1)
        earlier = [n for n in looks(pairs) if n < pairs]
        left = 1 - (spent(earlier[-1], pairs) if earlier else 0)
        return two_sided(ERROR * left, pairs - 1)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One named metric of a recipe: its values by seed, and their gap to the baseline's."""

    per_seed: Mapping[int, float]
    gap: Gap

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` without any."""
        return mean(self.per_seed)


def mean(values: Mapping[int, float]) -> float | None:
    """Arithmetic mean; NaN and infinities carry through; ``None`` of nothing."""
    return sum(values.values()) / len(values) if values else None


def _finds(effect: float, pairs: int, critical: float) -> float:
    """Chance that so many pairs find a gap of so many spreads."""
    return chance_beyond(effect * math.sqrt(pairs), pairs - 1, critical)


@cache
def _smallest_effect(pairs: int, critical: float, chance: float) -> float:
    """In spreads."""
    high = critical
    while _finds(high, pairs, critical) < chance:
        high *= 2
    low = 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _finds(middle, pairs, critical) < chance else (low, middle)
    return high
