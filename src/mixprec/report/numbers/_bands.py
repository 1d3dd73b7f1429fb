"""The band of exponents that each format can hold, beside a tensor's own: the picture that explains loss scaling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mixprec.formats import get_format

from .._figures import scale as scale_words

#: Roles of tensors that a loss scale multiplies: as recorded, or (unscaled) before it is taken out again.
_SCALED, _UNSCALED = "grad_output", "gradient"

#: Binades of room that a fitting loss scale leaves at the top.
_ROOM = 1


@dataclass(frozen=True, kw_only=True)
class Band:
    """The numbers of a format on the axis of a tensor's exponents, and what of the tensor lies outside.

    Attributes:
        name: of the format, and of the scale under which it holds the tensor.
        low: log2 of its smallest number.
        normal: log2 of its smallest normal number.
        high: end of its last binade.
        flushed: share of the non-zero elements that it rounds to zero: those that lie more than a binade below ``low``
            (an element just half as large as its smallest number, which is rounded to zero too, is left out).
        subnormal: share of those from there up to ``normal``.
        above: share of those from ``high`` on.
    """

    name: str
    low: float
    normal: float
    high: float
    flushed: float
    subnormal: float
    above: float


def bands(exponents: Mapping[int, int], role: str, loss_scale: float | None) -> list[Band]:
    """Where formats lie beside a tensor.

    A gradient under a loss scale is shown as it was recorded, so the band of fp16 without that scale lies higher by
    its logarithm; for a gradient without one, that of fp16 under a loss scale that fits lies lower. Formats that
    have a scale of their own for each tensor are placed so that the tensor's largest binade is their last.

    Args:
        exponents: elements by floor(log2 |x|).
        role: as in a ``StatisticsRecord``.
        loss_scale: of the step; ``None`` without one.

    Returns:
        The bands, in the order in which they are shown; none for a tensor of zeros.

    Example:
        >>> for band in bands({-30: 1, -20: 3}, "gradient", 1024.0)[:2]:
        ...     print(band.name, band.low, band.flushed)
        fp16, loss scale 2^10 -34.0 0.0
        fp16, no loss scale -24.0 0.25
    """
    if not exponents:
        return []
    return [_band(name, fmt, shift, exponents) for name, fmt, shift in _placed(max(exponents), role, loss_scale)]


def _placed(top: int, role: str, loss_scale: float | None) -> Iterator[tuple[str, str, float]]:
    """Name, format, and by how many binades it is moved on the tensor's axis."""
    if role in (_SCALED, _UNSCALED):
        recorded_under = loss_scale if role == _SCALED and loss_scale else 1.0
        own = math.log2(recorded_under)
        used = loss_scale or 1.0
        if used == 1.0:
            fitting = get_format("fp16").max_exponent - _ROOM - top
            if fitting > 0:
                yield f"fp16, loss scale 2^{fitting} would fit", "fp16", -fitting
        else:
            yield f"fp16, loss scale {scale_words(used)}", "fp16", own - math.log2(used)
        yield "fp16, no loss scale", "fp16", own
    else:
        yield "fp16", "fp16", 0.0
    yield "bf16", "bf16", 0.0
    yield "e5m2, no scale", "e5m2", 0.0
    yield "e4m3, no scale", "e4m3", 0.0
    for name in ("e5m2", "e4m3", "e2m1"):
        yield f"{name}, scaled to the largest", name, top - get_format(name).max_exponent


def _band(name: str, format_name: str, shift: float, exponents: Mapping[int, int]) -> Band:
    fmt = get_format(format_name)
    low, normal = math.log2(fmt.min_subnormal) + shift, math.log2(fmt.min_normal) + shift
    high = fmt.max_exponent + 1 + shift
    total = sum(exponents.values())

    def share(first: float, end: float) -> float:
        # A band that a scale other than a power of two moves cuts binades: each counts where its lower end lies.
        return sum(count for exponent, count in exponents.items() if first <= exponent < end) / total

    return Band(
        name=name,
        low=low,
        normal=normal,
        high=high,
        flushed=share(-math.inf, low - 1),
        subnormal=share(low - 1, normal),
        above=share(high, math.inf),
    )
