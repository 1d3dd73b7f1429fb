"""How wide the intervals of a plan of pairs must be, so that all its looks hold together.

The law of the t statistics at successive looks needs no simulation. Let r_n be the sum of n differences over the root
of their summed squares Q_n, which is the t statistic in another scale. Where the true gap is 0 and the differences are
normal, r_n is independent of Q_n (Basu's theorem), and the next difference over the root of Q_n is Student's t with n
degrees of freedom, over root n. So r_n is a Markov chain with a known kernel: r' = (r + u) / sqrt(1 + u^2). Its
distribution within the bounds is carried from look to look, as Armitage, McPherson and Rowe did for normal means (J. R.
Statist. Soc. A 132, 1969); the error is spent as Lan and DeMets proposed (Biometrika 70, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mixprec.records import PairPlan, looks, spent

_Array = np.ndarray[Any, np.dtype[np.float64]]

#: Parts of the range of r. The critical values are right to 0.5 %, and err to both sides.
_CELLS = 400


def plan_pairs(max_pairs: int) -> PairPlan:
    """The plan of a budget.

    Args:
        max_pairs: 3 to 100; a second of computing for each ten of them.

    Raises:
        ValueError: another budget.

    Example:
        >>> [round(value, 1) for value in plan_pairs(4).critical]
        [8.9, 4.9]
    """
    PairPlan(max_pairs=max_pairs, critical=(0.0,) * (max_pairs - 2))  # refuses what is no budget, before the work
    planned = looks(max_pairs)
    critical: list[float] = []
    kept, edges = np.full(_CELLS, 1 / _CELLS), np.linspace(-1, 1, _CELLS + 1)  # of r / sqrt(3), which is uniform
    for pairs in range(3, max_pairs + 1):
        error = PairPlan.error * spent(pairs, max_pairs)
        left = error - (1 - float(kept.sum()))
        share = 1 - error if pairs == 3 else _bound(left, _crossing(kept, edges, pairs))
        critical.append(math.sqrt(pairs - 1) * share / math.sqrt(1 - share * share))
        if pairs not in planned:
            share = 1.0
        kept, edges = _carried(kept, edges, pairs, share)
    return PairPlan(max_pairs=max_pairs, critical=tuple(critical))


def _bound(error: float, crossing: Callable[[float], float]) -> float:
    """What |r| / sqrt(n) exceeds with a chance of ``error``."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if crossing(middle) > error else (low, middle)
    return high


def _crossing(kept: _Array, edges: _Array, pairs: int) -> Callable[[float], float]:
    """The chance to come from within the bounds to beyond a share of the range with the next pair."""
    middles = (edges[1:] + edges[:-1]) / 2 * math.sqrt(pairs - 1)

    def chance(share: float) -> float:
        reach = np.full_like(middles, share * math.sqrt(pairs))
        outside = 1 - _next(reach, middles, pairs - 1) + _next(-reach, middles, pairs - 1)
        return float(kept @ outside)

    return chance


def _carried(kept: _Array, edges: _Array, pairs: int, share: float) -> tuple[_Array, _Array]:
    """What stays within a share of the range, by cells of it."""
    new = np.linspace(-share, share, _CELLS + 1)
    if pairs == 3:
        return np.full(_CELLS, share / _CELLS), new
    middles = (edges[1:] + edges[:-1]) / 2 * math.sqrt(pairs - 1)
    below = _next(new[None, :] * math.sqrt(pairs), middles[:, None], pairs - 1)
    return kept @ np.diff(below, axis=1), new


def _next(y: _Array, r: _Array, pairs: int) -> _Array:
    """Chance that r' <= y after so many pairs with r.

    With u = tan(a), r' is sqrt(1 + r^2) sin(a + atan(r)), which a value below that root passes up to twice.
    """
    from scipy.special import stdtr  # costs a moment, which only a plan should pay

    root, turn = np.sqrt(1 + r * r), np.arctan(r)
    angle = np.arcsin(np.clip(y / root, -1, 1))

    def upto(a: _Array) -> _Array:
        inside = np.clip(a, -math.pi / 2 + 1e-12, math.pi / 2 - 1e-12)
        chance = stdtr(pairs, math.sqrt(pairs) * np.tan(inside))
        return np.where(a >= math.pi / 2, 1.0, np.where(a <= -math.pi / 2, 0.0, chance))

    return upto(angle - turn) - upto(-math.pi - angle - turn) + 1 - upto(math.pi - angle - turn)
