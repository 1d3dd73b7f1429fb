"""A plan for adding pairs until a gap is resolved: when it is looked at, and how wide its interval is at each look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

#: Error of a plan: the chance that the interval of any of its looks leaves the true gap out.
ERROR = 0.025
#: Pairs at the first look.
FIRST_LOOK = 3
#: Largest budget: its last intervals are a matter of seconds to compute, and hours to train for.
MOST_PAIRS = 100


def looks(max_pairs: int) -> tuple[int, ...]:
    """After how many pairs a plan looks at the gap: 3, 4, 6, 8, 12, 16, 24, ... and at the end.

    Few looks cost little power, and each still adds a half at most to what was spent.

    Args:
        max_pairs: the budget, at least 3.

    Example:
        >>> looks(12), looks(10), looks(3)
        ((3, 4, 6, 8, 12), (3, 4, 6, 8, 10), (3,))
    """
    found = {FIRST_LOOK, max_pairs}
    step = 2
    while 2 * step < max_pairs:
        found |= {n for n in (2 * step, 3 * step) if n < max_pairs}
        step *= 2
    return tuple(sorted(found))


def spent(pairs: int, max_pairs: int) -> float:
    """Share of the error that a plan has spent by then: in proportion to the pairs beyond two.

    Example:
        >>> spent(3, 12), spent(12, 12)
        (0.1, 1.0)
    """
    return (pairs - FIRST_LOOK + 1) / (max_pairs - FIRST_LOOK + 1)


@dataclass(frozen=True, kw_only=True)
class PairPlan:
    """How many pairs there may be, and the intervals of the looks on the way.

    The intervals of all looks hold together with a chance of 97.5 %, whatever makes one stop: the gap's interval after
    ``n`` pairs is its mean plus and minus ``critical[n - 3]`` standard errors.

    Attributes:
        error: the chance that the interval of any look leaves the true gap out.
        max_pairs: the budget.
        critical: for 3, 4, ... ``max_pairs`` pairs; for a number that is no look, as if it were the next one.

    Raises:
        ValueError: a budget below 3 pairs or above 100, or not a critical value for each number of pairs.

    Example:
        >>> plan = PairPlan(max_pairs=4, critical=(10.9, 5.2))
        >>> plan.at(4), plan.at(9), plan.at(2)
        (5.2, 5.2, None)
    """

    error: ClassVar[float] = ERROR

    max_pairs: int
    critical: tuple[float, ...]

    def __post_init__(self) -> None:
        if not FIRST_LOOK <= self.max_pairs <= MOST_PAIRS:
            raise ValueError(f"max_pairs is {self.max_pairs}, expected {FIRST_LOOK} to {MOST_PAIRS} pairs of runs")
        if len(self.critical) != self.max_pairs - FIRST_LOOK + 1:
            raise ValueError(
                f"critical has {len(self.critical)} values, expected one for each of {FIRST_LOOK} to {self.max_pairs} "
                "pairs"
            )

    def at(self, pairs: int) -> float | None:
        """How many standard errors the interval reaches; ``None`` before the first look."""
        return None if pairs < FIRST_LOOK else self.critical[min(pairs, self.max_pairs) - FIRST_LOOK]
