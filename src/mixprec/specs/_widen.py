"""A layer precision with wider casts: the steps from 4 bits to 8, to 16, to the compute dtype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..formats import get_format, unknown_name
from ._cast import Cast
from ._layer import OPERANDS, LayerPrecision, operands_of
from ._parse import parse_cast

#: Bits of an element that each step has at least; an operand in the compute dtype has no cast left to widen.
WIDTHS: Mapping[str, int] = {"fp8": 8, "bf16": 16, "compute": 32}


def width(name: str) -> int:
    """Bits of a step that is named.

    Raises:
        ValueError: no such step.
    """
    if name not in WIDTHS:
        raise unknown_name("width", name, tuple(WIDTHS))
    return WIDTHS[name]


def next_width(precision: LayerPrecision, role: str, *, compute_bits: int) -> int | None:
    """Bits of the step above the narrowest cast of a role; ``None`` where it is in the compute dtype.

    Args:
        precision: of the layer.
        role: ``"input"``, ``"weight"`` or ``"grad_output"``.
        compute_bits: of the recipe's compute dtype.

    Example:
        >>> next_width(LayerPrecision.uniform("mxfp4"), "weight", compute_bits=32)
        8
    """
    casts = [cast for name in operands_of(role) if (cast := precision.operand(name)) is not None]
    bits = min((_bits(cast) for cast in casts), default=compute_bits)
    return next((step for step in WIDTHS.values() if step > bits), None) if bits < compute_bits else None


def widen_precision(precision: LayerPrecision, least: Mapping[str, int], *, compute_bits: int) -> LayerPrecision:
    """Give every operand of some roles a cast of at least so many bits; those that have them stay as they are.

    From a block format the step to 8 bits is MXFP8 (its scale rounded up), from one scale per tensor or row E4M3 under
    the same, with a current scale; rounding and transform stay. 16 bits are bf16, or no cast at all where the compute
    dtype has 16; from there on an operand is in the compute dtype. Nothing unscaled has a transform, so in a product
    with one both operands are widened then.

    Args:
        precision: of the layer.
        least: bits, by role.
        compute_bits: of the recipe's compute dtype.

    Example:
        >>> wide = widen_precision(LayerPrecision.uniform("mxfp4 sr"), {"grad_output": 8}, compute_bits=32)
        >>> str(wide.wgrad_grad_output), str(wide.wgrad_input)
        ('mxfp8 rceil sr', 'mxfp4 sr')
    """
    casts = {name: precision.operand(name) for name in OPERANDS}
    for role, bits in least.items():
        casts |= {name: _at_least(casts[name], bits, compute_bits) for name in operands_of(role)}
    for left, right in zip(OPERANDS[::2], OPERANDS[1::2], strict=True):
        for name, other in ((left, right), (right, left)):
            cast, plain = casts[name], casts[other]
            if cast is not None and cast.transform and not (plain is not None and plain.transform):
                casts[name] = plain
    return replace(precision, **casts)


def _bits(cast: Cast) -> int:
    return get_format(cast.element).bits


def _at_least(cast: Cast | None, bits: int, compute_bits: int) -> Cast | None:
    if cast is None or _bits(cast) >= bits:
        return cast
    if bits >= compute_bits:
        return None
    if bits > WIDTHS["fp8"]:
        return parse_cast("bf16")
    granularity = cast.granularity
    text = "mxfp8 rceil" if granularity.kind in ("block", "none") else f"e4m3[{granularity}]"
    wide = parse_cast(f"{text} sr" if cast.rounding == "stochastic" else text)
    return replace(wide, transform=cast.transform, signs=cast.signs)
