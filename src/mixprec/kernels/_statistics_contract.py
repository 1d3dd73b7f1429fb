"""What every backend must count of a tensor and of what casts would do to it.

As in `_contract`, the arithmetic is given here once and every backend equals `reference` bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._contract import Draw
from ._parameters import CastParameters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TENSOR_COUNTS = ("elements", "zeros", "nans", "infinities")
TENSOR_NUMBERS = ("amax", "smallest", "magnitudes", "squares")
CAST_COUNTS = ("elements", "nonzero", "flushed", "subnormal", "saturated", "nonfinite")
CAST_NUMBERS = ("magnitudes", "squares", "noise", "deviation", "bias")
#: Places of the histogram: biased exponents of fp32.
EXPONENTS = 256


@dataclass(frozen=True, eq=False)
class Probe:
    """One cast that statistics are taken of.

    Attributes:
        parameters: of the cast.
        draw: where its random bits come from.
        amax: what a delayed scale is made for (0-d fp32); None or 0: x's own.
    """

    parameters: CastParameters
    draw: Draw
    amax: Tensor | None = None


@dataclass(frozen=True, eq=False)
class RawStatistics:
    """Statistics as they lie on the device of the tensor that they are of; nothing has waited for it.

    `mixprec.tensors.read_statistics` makes host numbers of them.

    Attributes:
        casts: one-line forms, in the order of the results.
        dtype: of the tensor.
        counts: int64 ``[4 + 256 + 6 * casts]``: ``TENSOR_COUNTS``, the histogram, ``CAST_COUNTS`` of each cast.
        numbers: fp64 ``[4 + 5 * casts]``: ``TENSOR_NUMBERS``, ``CAST_NUMBERS`` of each cast.
    """

    casts: tuple[str, ...]
    dtype: torch.dtype
    counts: Tensor
    numbers: Tensor


@runtime_checkable
class StatisticsBackend(Protocol):
    """The method of a backend that takes statistics.

    Of x, widened to fp32:

    - ``elements``, ``zeros``, ``nans``, ``infinities``: how many.
    - the histogram: how many elements have each biased exponent ``bits(x) >> 23 & 255``; place 0 holds zeros and
      fp32's subnormals, place 255 infinities and NaN.
    - ``amax``, ``smallest``: the largest magnitude of the finite elements, the smallest of those that are not zero; 0
      without any.
    - ``magnitudes``, ``squares``: sums of ``|x|`` and ``x * x`` over the finite elements, in fp64.

    Of a cast: y is what is rounded, x or under a transform the padded transform of x (in ``[R, C]``); q is its element
    on the grid, and ``v = fp32(fp32(q * scale) * outer)`` what `Backend.dequantize` makes of it. An element is
    outside where y, scale and outer are finite and q is not; w is v, or outside what a saturating cast would give: that
    of the format's largest number instead of q. An element is compared where y and w are finite.

    - ``elements``: of y. ``nonzero``: those that are finite and not zero.
    - ``flushed``: compared, y is not zero and q is.
    - ``subnormal``: compared, q is not zero and lies below the smallest normal magnitude of a float format (none in
      integers and tables).
    - ``saturated``: outside; and v is finite, q is the last of its sign, ``end``, and ``|y| * |end| > |v| * (|end| +
      half step)`` in fp64, half a step being half of the grid's last spacing (towards the larger end).
    - ``nonfinite``: y is finite and v is not.
    - ``magnitudes``, ``squares``, ``noise``, ``deviation``, ``bias``: sums over the compared elements of ``|y|``,
      ``y * y``, ``d * d``, ``|d|`` and d, with ``d = |w| - |y|``, in fp64. (w never has the other sign than y.)

    Sums: one number per element in C order (0 where it does not count), in chunks of 1,024 padded with zeros, each and
    then their results padded to a power of two, by halving: ``a[:h] + a[h:]``.
    """

    def statistics(self, x: Tensor, probes: Sequence[Probe], axis: int) -> tuple[Tensor, Tensor]:
        """``(counts, numbers)`` of `RawStatistics`, on x's device.

        x has any number of dimensions where all casts look at elements or the whole tensor, otherwise two; ``axis``
        is as in `Backend`.
        """
        ...
