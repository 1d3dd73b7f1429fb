"""The bootstrap-t interval of a mean (Efron and Tibshirani, An Introduction to the Bootstrap, 12.5)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

#: Below, most resamples repeat a few values, and the interval says more of the method than of the data.
FEWEST = 4
#: From here on the interval covers about as often as it says.
ENOUGH = 8
_RESAMPLES = 2000


def bootstrap_interval(values: Sequence[float], error: float = 0.05) -> tuple[float, float] | None:
    """Interval of the mean that assumes no distribution: studentized means of resamples.

    The resamples are the same for equal values. Resamples without a spread are left out. Under 8 values it covers less
    often, or reaches farther, than it says.

    Args:
        values: finite.
        error: chance to leave the mean out, half on each side.

    Returns:
        ``None`` for fewer than 4 values, or values without a spread.

    Example:
        >>> low, high = bootstrap_interval([0.010, 0.012, 0.011, 0.013, 0.009, 0.011, 0.012, 0.010])
        >>> 0.009 < low < 0.011 < high < 0.013
        True
    """
    n = len(values)
    center, sd = _moments(values)
    if n < FEWEST or sd == 0:
        return None
    draw = random.Random(0)
    found: list[float] = []
    for _ in range(_RESAMPLES):
        mean, spread = _moments(draw.choices(values, k=n))
        if spread > 0:
            found.append((mean - center) / spread)
    found.sort()
    rank = round(error / 2 * (len(found) - 1))
    return center - found[-1 - rank] * sd, center - found[rank] * sd


def _moments(values: Sequence[float]) -> tuple[float, float]:
    n = len(values)
    mean = math.fsum(values) / n if n else 0.0
    return mean, math.sqrt(math.fsum((x - mean) * (x - mean) for x in values) / (n - 1)) if n > 1 else 0.0
