"""How much of a slope that was measured on few data is believed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ._batch import Change


def shared_slope(changes: Iterable[Change]) -> float:
    """How large slopes really are, as a share of what the terms' changes are: the mean of slope^2 over change^2.

    Were the model at a minimum of the expected loss, every slope would be zero and what is measured nothing but the
    luck of the batch, of the known ``variance``. What exceeds it is real. One site shows too little of that; all sites
    and candidates together show it.

    Returns:
        At least 0; 0 where nothing exceeds chance.
    """
    shares = [
        (change.slope**2 - change.variance) / (2 * change.curvature)
        for change in changes
        if change.curvature > 0 and math.isfinite(change.variance)
    ]
    return max(0.0, sum(shares) / len(shares)) if shares else 0.0


def predicted(change: Change, share: float) -> float:
    """The expected change of the loss on other data: curvature, what is beyond, and what is believed of the slope.

    A slope drawn with variance ``share * 2 * curvature`` and measured with ``change.variance`` is expected at the
    measured value times the first over the sum of both (empirical Bayes; Efron and Morris 1973).

    Example:
        >>> predicted(Change(curvature=2.0, slope=1.0, variance=1.0), share=0.25)
        2.5
    """
    real = share * 2 * change.curvature
    if real == 0.0:
        return change.curvature + change.beyond
    return change.curvature + change.beyond + change.slope * real / (real + change.variance)
