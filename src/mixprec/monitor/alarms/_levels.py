"""The ordinary level of a loss or a gradient norm, and what is far above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ._curve import Past
from ._thresholds import Thresholds

#: Where a loss has come close to zero its noise is no longer a share of it: shares are taken of at least this part of
#: the highest median that there was.
_LEAST = 0.25


@dataclass(frozen=True, kw_only=True)
class High:
    """A value that is no ordinary one.

    Attributes:
        name: ``"loss spike"``, ``"loss rise"`` or ``"gradient spike"``.
        value: of a rise the mean that has risen.
        middle: the median of the ordinary ones.
        limit: the highest ordinary value.
    """

    name: str
    value: float
    middle: float
    limit: float


class LossLevel:
    """A spike in one step, and a rise that several steps confirm.

    Both are judged by the median m of the last 40 ordinary steps and their deviation s = 1.4826 MAD. A spike is a loss
    above m by 12 s and by a quarter of m; a rise is a mean of the last 8 (the highest and the lowest left out) above m
    by 5 s / sqrt(8), which is 5 standard deviations of such a mean, and by 4 % of m. What is too high does not enter
    the past that it is compared with, for at most as many steps as that is long: then the new level is believed.

    Example:
        >>> level = LossLevel(Thresholds())
        >>> found = [level.admit(2.0 + 0.01 * (i % 3)) for i in range(50)]
        >>> level.judge(9.0).name, level.judge(2.1)
        ('loss spike', None)
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._at = thresholds
        self._past, self._recent = Past(thresholds.window), Past(thresholds.smoothing)
        self._highest, self._apart = 0.0, 0

    @property
    def is_known(self) -> bool:
        """Whether enough losses have been seen."""
        return self._past.is_full

    def judge(self, loss: float) -> High | None:
        """What a finite loss is, where it is no ordinary one; nothing is remembered."""
        if not self._past.is_full:
            return None
        at, middle, deviation = self._at, self._past.middle(), self._past.deviation()
        share = max(abs(middle), _LEAST * self._highest)
        spike = middle + max(at.loss_spike_mad * deviation, at.loss_spike_share * share)
        if loss > spike:
            return High(name="loss spike", value=loss, middle=middle, limit=spike)
        rise = middle + max(at.loss_mad * deviation / math.sqrt(at.smoothing), at.loss_share * share)
        recent = sorted([*self._recent.values, loss][-at.smoothing :])
        mean = fmean(recent[1:-1] if len(recent) > 2 else recent)
        if len(recent) == at.smoothing and mean > rise:
            return High(name="loss rise", value=mean, middle=middle, limit=rise)
        return None

    def admit(self, loss: float) -> High | None:
        """Remember a finite loss; what it is."""
        high = self.judge(loss)
        oldest = self._recent.values[0] if self._recent.is_full else loss
        self._recent.add(loss)
        if not self._past.is_full:
            self._past.add(loss)
            return None
        self._highest = max(self._highest, abs(self._past.middle()))
        self._apart = 0 if high is None else self._apart + 1
        if high is None:
            self._past.add(oldest)  # those since wait, lest the beginning of a rise hide the rest of it
        elif self._apart > self._at.window:
            self._past.add(loss)
        return high

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        past, recent = list(self._past.values), list(self._recent.values)
        return {"past": past, "recent": recent, "highest": self._highest, "apart": self._apart}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        _fill(self._past, state["past"])
        _fill(self._recent, state["recent"])
        self._highest, self._apart = float(state["highest"]), int(state["apart"])


class NormLevel:
    """Compares each norm with the last ones.

    Norms are compared by their logarithms, in which they are spread evenly: a spike is both 10 times the median and
    beyond 6 * 1.4826 MAD of the logarithms, so that norms that always jump about (of a loss near zero) raise none.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._past = thresholds, Past(thresholds.window)

    def judge(self, norm: float) -> High | None:
        """What a norm above 0 is, where it is no ordinary one; nothing is remembered."""
        if not self._past.is_full:
            return None
        middle, deviation = self._past.middle(), self._past.deviation()
        limit = middle + max(math.log(self._at.norm_spike), self._at.norm_mad * deviation)
        if math.log(norm) <= limit:
            return None
        return High(name="gradient spike", value=norm, middle=math.exp(middle), limit=math.exp(limit))

    def admit(self, norm: float) -> None:
        """Remember a norm above 0."""
        self._past.add(math.log(norm))

    def state(self) -> list[float]:
        """What it remembers, as JSON can hold it."""
        return list(self._past.values)

    def load(self, state: list[float]) -> None:
        """Continue from a ``state()``."""
        _fill(self._past, state)


def _fill(past: Past, values: list[float]) -> None:
    past.values.clear()
    past.values.extend(values)
