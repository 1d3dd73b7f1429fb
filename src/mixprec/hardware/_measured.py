"""What `mixprec calibrate` measures of a machine, beyond its rates: seconds by shape, operator and cast."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as choices


@dataclass(frozen=True)
class Curve:
    """Seconds of a call by its size, between measured points: straight on logarithmic axes.

    Below the first point a call takes as long as there (that is the cost of calling); beyond the last one it takes
    longer in proportion to the size.

    Args:
        points: (size, seconds), both positive, sizes rising.

    Example:
        >>> copy = Curve(((1e3, 1e-6), (1e6, 1e-4)))
        >>> copy.at(10), round(copy.at(1e7), 6)
        (1e-06, 0.001)
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        _check_rising("sizes of a curve", [size for size, _ in self.points])
        _check_positive("seconds of a curve", [seconds for _, seconds in self.points])

    def at(self, size: float) -> float:
        """Seconds of a call of this size."""
        sizes = [point[0] for point in self.points]
        if size <= sizes[0]:
            return self.points[0][1]
        if size >= sizes[-1]:
            return self.points[-1][1] * size / sizes[-1]
        index = bisect_right(sizes, size)
        (low, fast), (high, slow) = self.points[index - 1], self.points[index]
        share = math.log(size / low) / math.log(high / low)
        return math.exp(math.log(fast) + share * math.log(slow / fast))


@dataclass(frozen=True)
class Grid:
    """Seconds of one product ``[M, K] @ [K, N]``, measured at a grid of sizes: small products are far from the peak.

    Between the sizes, straight on logarithmic axes; beyond them on the slope of the outermost two, which is never
    steeper than proportional.

    Args:
        m: measured sizes of M, rising.
        n: of N.
        k: of K.
        seconds: of each, K fastest, then N.

    Example:
        >>> grid = Grid((1, 10), (1, 10), (1, 10), (1.0, 10.0, 10.0, 100.0, 10.0, 100.0, 100.0, 1000.0))
        >>> round(grid.at(5, 2, 3), 9), round(grid.at(100, 1, 1), 9)
        (30.0, 100.0)
    """

    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        for axis in (self.m, self.n, self.k):
            _check_rising("sizes of a grid", axis)
        _check_positive("seconds of a grid", self.seconds)
        expected = len(self.m) * len(self.n) * len(self.k)
        if len(self.seconds) != expected:
            raise ValueError(
                f"a grid of {len(self.m)} x {len(self.n)} x {len(self.k)} sizes has {len(self.seconds)} seconds, "
                f"expected {expected}"
            )

    def at(self, m: int, n: int, k: int) -> float:
        """Seconds of one product of these sizes."""
        axes = (self.m, self.n, self.k)
        places = [_place(axis, size) for axis, size in zip(axes, (m, n, k), strict=True)]
        total = 0.0
        for corner in choices((0, 1), repeat=3):
            weight = math.prod(share if side else 1 - share for (_, share), side in zip(places, corner, strict=True))
            if weight:
                index = [
                    min(low + side, len(axis) - 1) for (low, _), side, axis in zip(places, corner, axes, strict=True)
                ]
                total += weight * math.log(self._seconds_at(*index))
        return math.exp(total)

    def _seconds_at(self, i: int, j: int, last: int) -> float:
        return self.seconds[(i * len(self.n) + j) * len(self.k) + last]


@dataclass(frozen=True, kw_only=True)
class CastCost:
    """What a cast adds to a layer beside its products, forward and backward together.

    Attributes:
        call: seconds a layer's step takes more, whatever its size.
        element: seconds for each element of the three operands, which are rounded in two orientations.
    """

    call: float
    element: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A machine as it was measured. It holds for this machine alone.

    Attributes:
        machine: the processor's name.
        threads: that torch multiplied with.
        torch: its version.
        products: seconds of one product by engine: ``"fp32"``, ``"bf16"``, ``"batched fp32"``, and of convolutions
            ``"fprop"``, ``"dgrad"`` and ``"wgrad"``.
        operators: seconds of a call by bytes read and written, by family: ``"elementwise"``, ``"norm"``, ...
        casts: by kind of layer (``"linear"``, ``"convolution"``, ``"recurrent"``) and cast in its one-line form
            (or the compute dtype), e.g. ``"linear e4m3[tensor]"``.
        call: seconds that an operator takes more within a step than alone: Python, modules and autograd around it.
        cold: factor on what products and operators take within a step, whose operands are in no cache.
        reference: seconds of the ``Stopwatch``'s own work at the speed that all figures are told at; 0: not known.
    """

    machine: str
    threads: int
    torch: str
    products: Mapping[str, Grid]
    operators: Mapping[str, Curve]
    casts: Mapping[str, CastCost]
    call: float = 0.0
    cold: float = 1.0
    reference: float = 0.0

    @property
    def fingerprint(self) -> tuple[str, int, str]:
        """What must be the same for the figures to hold."""
        return self.machine, self.threads, self.torch


def _place(axis: Sequence[int], size: int) -> tuple[int, float]:
    """The interval of an axis that a size falls into, and how far; beyond the ends outside of [0, 1]."""
    if len(axis) == 1:
        return 0, 0.0
    low = min(max(bisect_right(axis, size) - 1, 0), len(axis) - 2)
    return low, math.log(size / axis[low]) / math.log(axis[low + 1] / axis[low])


def _check_rising(what: str, values: Sequence[float]) -> None:
    if not values or any(b <= a for a, b in zip((0, *values), values, strict=False)):
        raise ValueError(f"{what} are {list(values)}, expected positive rising numbers")


def _check_positive(what: str, values: Sequence[float]) -> None:
    if not values or any(not (math.isfinite(value) and value > 0) for value in values):
        raise ValueError(f"{what} are {list(values)}, expected positive finite numbers")
