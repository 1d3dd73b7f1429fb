"""Student's t: its distribution, its quantiles, and the power of its test, from formulas alone.

Degrees of freedom are whole here, for which the distribution is a finite sum (Abramowitz and Stegun, Handbook of
Mathematical Functions, 26.7.3 and 26.7.4).
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

#: From here on quantiles come from the series in 1 / df (same handbook, 26.7.5), right to 5 digits.
_MANY = 200
_POINTS = 400


def outside(t: float, df: int) -> float:
    """Chance that a Student variable is farther from 0 than ``t``.

    Args:
        t: at least 0.
        df: degrees of freedom, at least 1.

    Example:
        >>> round(outside(2.776, 4), 4), round(outside(12.706, 1), 4)
        (0.05, 0.05)
    """
    angle = math.atan2(t, math.sqrt(df))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = df % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(2 + odd, df - 1, 2):
        term *= square * (k - 1) / k
        total += term
    rest = sine * total if df > 1 else 0.0
    inside = 2 / math.pi * (angle + rest) if odd else rest
    return max(0.0, 1 - inside)


@cache
def two_sided(level: float, df: int) -> float:
    """What a Student variable's magnitude exceeds with a chance of ``level``.

    Args:
        level: above 0, below 1.
        df: degrees of freedom, at least 1.

    Example:
        >>> round(two_sided(0.05, 2), 3), round(two_sided(0.025, 11), 3), round(two_sided(0.05, 1000), 3)
        (4.303, 2.593, 1.962)
    """
    if df > _MANY:
        z = NormalDist().inv_cdf(1 - level / 2)
        return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df * df)
    high = 2.0
    while outside(high, df) > level:
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle, df) > level else (low, middle)
    return high


def chance_beyond(effect: float, df: int, critical: float) -> float:
    """Chance that a test finds an effect: that |T| > ``critical`` for a noncentral T.

    By Simpson's rule over the estimated spread, whose square is chi-squared; right to 5 digits.

    Args:
        effect: the noncentrality: true mean over the true standard error of the mean.
        df: degrees of freedom of the estimated spread, at least 1.
        critical: what |T| must exceed.

    Example:
        >>> round(chance_beyond(0.0, 4, two_sided(0.05, 4)), 4), round(chance_beyond(3.0, 9, two_sided(0.05, 9)), 3)
        (0.05, 0.761)
    """
    half = 10 / math.sqrt(2 * df)
    low, high = max(0.0, 1 - half), 1 + half
    width = (high - low) / _POINTS
    scale = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    total = 0.0
    for i in range(_POINTS + 1):
        s = low + i * width
        if s == 0:
            density = math.exp(scale) if df == 1 else 0.0
        else:
            density = math.exp(scale + (df - 1) * math.log(s) - df * s * s / 2)
        weight = 1 if i in (0, _POINTS) else 4 if i % 2 else 2
        total += weight * density * (_above(critical * s - effect) + _above(critical * s + effect))
    return min(1.0, total * width / 3)


def _above(z: float) -> float:
    """Chance that a standard normal variable is above ``z``."""
    return math.erfc(z / math.sqrt(2)) / 2
