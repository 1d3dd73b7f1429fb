"""Clipping by z-score: how far a gradient norm is above its running mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ._settings import Clip


class ZClip:
    """Running mean and variance of the norm, with what is above ``z`` deviations drawn down.

    A norm with z-score ``s > z`` is clipped to ``mean + z^2 / s * deviation``, and remembered as it was clipped.

    Args:
        settings: numbers.

    Example:
        >>> clip = ZClip(Clip(warm_up=4))
        >>> for norm in (1.0, 1.2, 0.8, 1.0):
        ...     clip.admit(norm)
        >>> clip.limit(1.1) is None, 1.0 < clip.limit(9.0) < 1.1
        (True, True)

    Source: Kumar et al., arXiv:2504.02507, algorithm 1.
    """

    def __init__(self, settings: Clip) -> None:
        self._at, self._warm = settings, list[float]()
        self._mean = self._variance = 0.0

    def limit(self, norm: float) -> float | None:
        """What a norm is clipped to; ``None``: it is ordinary, or the averages are not warm."""
        if len(self._warm) < self._at.warm_up or not math.isfinite(norm):
            return None
        deviation = math.sqrt(self._variance)
        score = (norm - self._mean) / deviation if deviation > 0.0 else 0.0
        return self._mean + self._at.z**2 / score * deviation if score > self._at.z else None

    def admit(self, norm: float) -> None:
        """Remember the norm of an applied step, as it was clipped."""
        if not math.isfinite(norm):
            return
        if len(self._warm) < self._at.warm_up:
            self._warm.append(norm)
            self._mean = sum(self._warm) / len(self._warm)
            self._variance = sum((one - self._mean) ** 2 for one in self._warm) / len(self._warm)
            return
        limit = self.limit(norm)
        clipped, decay = norm if limit is None else limit, self._at.decay
        self._variance = decay * self._variance + (1.0 - decay) * (clipped - self._mean) ** 2
        self._mean = decay * self._mean + (1.0 - decay) * clipped

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {"warm": list(self._warm), "mean": self._mean, "variance": self._variance}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._warm = list(state["warm"])
        self._mean, self._variance = float(state["mean"]), float(state["variance"])
