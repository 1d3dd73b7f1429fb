"""Paired differences over seeds, and what they can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
# Beyond the last one it is kept, which errs towards "not resolved" by at most 4 %.
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Differences to the baseline, paired by seed (both saw the same data from the same weights).

    Attributes:
        per_seed: recipe minus baseline, by seed.

    Example:
        >>> gap = Gap(per_seed={0: 0.010, 1: 0.012, 2: 0.011})
        >>> round(gap.mean, 4), round(gap.sd, 4), gap.resolved
        (0.011, 0.001, True)
        >>> Gap(per_seed={0: 0.010}).sd is None
        True
    """

    per_seed: Mapping[int, float] = field(default_factory=dict[int, float])

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
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean (Student's t, n - 1 degrees of freedom).

        ``None`` below two seeds, and where a difference is not finite.
        """
        center, sd = self.mean, self.sd
        if center is None or sd is None or not math.isfinite(center) or not math.isfinite(sd):
            return None
        half = _T_95[min(self.seeds - 1, len(_T_95)) - 1] * sd / math.sqrt(self.seeds)
        return center - half, center + half

    @property
    def resolved(self) -> bool:
        """Whether the seeds can tell the gap from none: its 95 % interval leaves 0 out."""
        interval = self.interval
        return interval is not None and not interval[0] <= 0 <= interval[1]

    @property
    def identical(self) -> bool:
        """Whether every seed gave exactly the baseline's value."""
        return self.seeds > 0 and all(gap == 0 for gap in self.per_seed.values())


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
