"""Learning-rate schedules of the built-in workloads."""

from __future__ import annotations

import math
from collections.abc import Callable


def warmup_cosine(steps: int, *, warmup: int, final: float = 0.1) -> Callable[[int], float]:
    """A linear rise over ``warmup`` steps times a cosine from 1 down to ``final`` over ``steps``.

    Example:
        >>> rate = warmup_cosine(400, warmup=50)
        >>> rate(0), round(rate(200), 3), round(rate(400), 3)
        (0.02, 0.55, 0.1)
    """

    def multiplier(step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))
        return min(1.0, (step + 1) / warmup) * (final + (1 - final) * cosine)

    return multiplier
