"""Series for the eye: smoothed, thinned, rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

Series = Mapping[int, float]


def smooth(series: Series, reach: int) -> dict[int, float]:
    """At every step the straight line that fits the steps within ``reach`` best; non-finite values are left out.

    Unlike a moving average it does not trail behind a falling curve, nor bend at its ends.

    Args:
        series: value by step, in order.
        reach: steps on either side that are fitted, counted among the finite values.

    Example:
        >>> smooth({0: 1.0, 1: 2.0, 2: float("nan"), 3: 3.0, 4: 4.0}, reach=1)
        {0: 1.0, 1: 2.0, 3: 3.0, 4: 4.0}
    """
    finite = [(step, value) for step, value in series.items() if math.isfinite(value)]
    # Running sums give any window's fit at once; they are taken about the middle so that they stay exact enough.
    middle = len(finite) // 2
    sums = list(accumulate((value for _, value in finite), initial=0.0))
    moments = list(accumulate(((i - middle) * value for i, (_, value) in enumerate(finite)), initial=0.0))
    smoothed: dict[int, float] = {}
    for i, (step, _) in enumerate(finite):
        first, end = max(0, i - reach), min(len(finite), i + reach + 1)
        n, center = end - first, (first + end - 1) / 2
        mean = (sums[end] - sums[first]) / n
        squares = n * (n * n - 1) / 12
        slope = (moments[end] - moments[first] - (center - middle) * n * mean) / squares if n > 1 else 0.0
        smoothed[step] = mean + slope * (i - center)
    return smoothed


def average(series: Sequence[Series]) -> dict[int, float]:
    """The mean at the steps that all series have.

    Example:
        >>> average([{0: 1.0, 1: 2.0}, {0: 3.0}])
        {0: 2.0}
    """
    if not series:
        return {}
    first, *others = series
    return {
        step: (value + sum(other[step] for other in others)) / len(series)
        for step, value in first.items()
        if all(step in other for other in others)
    }


def difference(series: Series, reference: Series) -> dict[int, float]:
    """Series minus reference, at the steps that both have.

    Example:
        >>> difference({0: 1.0, 1: 2.5}, {1: 2.0})
        {1: 0.5}
    """
    return {step: value - reference[step] for step, value in series.items() if step in reference}


def thin(series: Series, points: int) -> dict[int, float]:
    """Every k-th value and the last, so that about ``points`` remain.

    Example:
        >>> thin({step: 0.0 for step in range(10)}, 3)
        {0: 0.0, 4: 0.0, 8: 0.0, 9: 0.0}
    """
    stride = max(1, math.ceil(len(series) / points))
    last = len(series) - 1
    return {step: value for i, (step, value) in enumerate(series.items()) if i % stride == 0 or i == last}


def view(values: Sequence[float], around: Sequence[float]) -> tuple[float, float] | None:
    """A range for an axis: all of ``values``, unless some run far away from those in ``around``.

    Example:
        >>> view([1.0, 2.0, 1e9], around=[1.0, 2.0])
        (0.9, 3.1)
    """
    finite = [value for value in values if math.isfinite(value)]
    core = [value for value in around if math.isfinite(value)] or finite
    if not core:
        return None
    low, high = min(core), max(core)
    reach = (high - low) or abs(high) or 1.0
    low, high = max(min(finite, default=low), low - reach), min(max(finite, default=high), high + reach)
    margin = 0.05 * ((high - low) or reach)
    return low - margin, high + margin
