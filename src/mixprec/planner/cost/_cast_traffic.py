"""Bytes that rounding a layer's operands moves on a device whose engines read the narrow format.

The kernels that torchao counts (roofline_utils.py): a scale of a whole tensor needs the tensor read once for its amax;
then a tensor scale lets one kernel write both orientations, while row and block scales, which lie along the
reduction, need a kernel for each.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import describe
from ...specs import Cast


@dataclass(frozen=True)
class CastTraffic:
    """Bytes and kernels of one operand's casts in a step, per element."""

    bytes: float
    kernels: int


def cast_traffic(casts: tuple[Cast | None, Cast | None], wide: int, *, is_emulated: bool) -> CastTraffic:
    """What one operand costs in the two products that it goes into.

    Args:
        casts: in either product; ``None`` leaves the operand wide there.
        wide: bytes of an element before the cast.
        is_emulated: the rounded values are written in the wide dtype.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> e4m3, mx = parse_cast("e4m3[tensor]"), parse_cast("mxfp8")
        >>> cast_traffic((e4m3, e4m3), 2, is_emulated=False)  # amax 2, read 2, write twice 1
        CastTraffic(bytes=6.0, kernels=2)
        >>> cast_traffic((mx, mx), 2, is_emulated=False).kernels
        2
    """
    present = [cast for cast in casts if cast is not None]
    total, kernels = 0.0, 0
    shared = len(present) == 2 and present[0] == present[1] and present[0].granularity.kind in ("none", "tensor")
    for index, cast in enumerate(present):
        written = float(wide) if is_emulated else bits_of(cast) / 8
        if index == 0 or not shared:
            kernels += 1
            total += wide
            if _needs_amax(cast):
                kernels += 1
                total += wide
        total += written
    return CastTraffic(total, kernels)


def bits_of(cast: Cast) -> float:
    """Of an element, its share of the block's scale included.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> bits_of(parse_cast("mxfp8")), bits_of(parse_cast("nvfp4")), bits_of(parse_cast("e4m3[tensor]"))
        (8.25, 4.5, 8.0)
    """
    bits = describe(cast.element).bits
    if cast.granularity.kind != "block" or cast.scale is None:
        return float(bits)
    return bits + describe(cast.scale).bits / (cast.granularity.outer * cast.granularity.reduction)


def _needs_amax(cast: Cast) -> bool:
    return cast.delayed is None and (cast.granularity.kind == "tensor" or cast.tensor_scale is not None)
