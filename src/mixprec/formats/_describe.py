"""The facts of a format as one value, for whoever prints them."""

from __future__ import annotations

from dataclasses import dataclass

from ._block_catalog import BLOCK_ALIASES, BLOCK_FORMATS, get_block_format
from ._format import Format, Kind
from ._generic import is_generic, unknown_format
from ._registry import FORMATS, get_format


@dataclass(frozen=True, kw_only=True)
class FormatDescription:
    """What a format, or the element of a block format, can hold.

    Attributes:
        name: as it was asked for.
        element: name of the element format; ``name`` itself where it is no block format.
        kind: of the element: float, integer, exponent (a power of two) or table.
        bits: width of an element's code.
        exponent_bits: width of the exponent field.
        mantissa_bits: width of the stored mantissa (for an integer: its fractional bits).
        bias: exponent bias.
        signed: whether there are negative numbers.
        largest: the largest finite value (of a table: the largest magnitude of both signs).
        smallest_positive: the smallest positive value.
        smallest_normal: the smallest value with full precision; ``None`` for an integer or a table, whose precision
            falls with the value.
        smallest_subnormal: the smallest positive value, ``None`` where there are no subnormals.
        values_per_binade: numbers from one power of two up to the next; ``None`` for an integer or a table.
        unit_roundoff: half the relative spacing of normal values; ``None`` where there are none, and for powers of two.
        values: of a table: its numbers in ascending order; else empty.
        finite_values: distinct finite numbers, both signs, -0 and +0 as one.
        special_codes: (meaning, codes in binary) for infinity, NaN, -0 and unused codes.
        block: the tile that shares a scale, (outer, reduction), or ``None``.
        scale: format of the tile's scale, or ``None``.
        tensor_scale: format of the tensor's scale, or ``None``.
        bits_per_element: stored bits per element with the tile's scale.
        source: where the facts come from.
    """

    name: str
    element: str
    kind: Kind
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    signed: bool
    largest: float
    smallest_positive: float
    smallest_normal: float | None
    smallest_subnormal: float | None
    values_per_binade: int | None
    unit_roundoff: float | None
    values: tuple[float, ...]
    finite_values: int
    special_codes: tuple[tuple[str, str], ...]
    block: tuple[int, int] | None
    scale: str | None
    tensor_scale: str | None
    bits_per_element: float
    source: str


def describe(name: str) -> FormatDescription:
    """Gather the facts of a format.

    Args:
        name: a registered format, a generic one such as ``e5m6``, or a block format.

    Returns:
        The facts.

    Raises:
        ValueError: no format has the name.

    Example:
        >>> facts = describe("mxfp8")
        >>> facts.element, facts.largest, facts.bits_per_element, facts.special_codes
        ('e4m3', 448.0, 8.25, (('NaN', 'S.1111.111'), ('-0', '1.0000.000')))
    """
    is_block = name in BLOCK_FORMATS or name in BLOCK_ALIASES
    if not is_block and name not in FORMATS and not is_generic(name):
        raise unknown_format(name, [*FORMATS, *BLOCK_FORMATS, *BLOCK_ALIASES])
    block = get_block_format(name) if is_block else None
    fmt = get_format(block.element if block else name)
    has_binades = fmt.kind in ("float", "exponent")
    return FormatDescription(
        name=name,
        element=fmt.name,
        kind=fmt.kind,
        bits=fmt.bits,
        exponent_bits=fmt.exponent_bits,
        mantissa_bits=fmt.mantissa_bits,
        bias=fmt.bias,
        signed=fmt.signed and fmt.kind != "exponent",
        largest=fmt.max_value,
        smallest_positive=fmt.min_subnormal,
        smallest_normal=fmt.min_normal if has_binades else None,
        smallest_subnormal=fmt.min_subnormal if fmt.kind == "float" and fmt.has_subnormals else None,
        values_per_binade=1 << fmt.mantissa_bits if has_binades else None,
        unit_roundoff=fmt.unit_roundoff if fmt.kind == "float" else None,
        values=fmt.grid,
        finite_values=_finite_values(fmt),
        special_codes=_special_codes(fmt),
        block=block.block if block else None,
        scale=block.scale if block else None,
        tensor_scale=block.tensor_scale if block else None,
        bits_per_element=block.bits_per_element if block else float(fmt.bits),
        source=block.source if block else fmt.source,
    )


def _finite_values(fmt: Format) -> int:
    if fmt.kind == "table":
        return len(fmt.values)
    if fmt.kind == "exponent" or not fmt.signed:
        return fmt.max_code + 1
    positive = fmt.max_code
    if not fmt.has_subnormals and fmt.kind == "float":
        positive -= (1 << fmt.mantissa_bits) - 1
    return 2 * positive + 1


def _special_codes(fmt: Format) -> tuple[tuple[str, str], ...]:
    if fmt.kind == "table":
        return ()
    if fmt.kind == "exponent" or not fmt.signed:
        return (("NaN", ".".join("1" * width for width in (fmt.exponent_bits, fmt.mantissa_bits) if width)),)
    if fmt.kind == "integer":
        return (("unused (would be -2)", "1" + "0" * (fmt.bits - 1)),)
    ones, zeros = "1" * fmt.exponent_bits, "0" * fmt.exponent_bits
    fraction_zeros = "0" * fmt.mantissa_bits
    codes: list[tuple[str, str]] = []
    if fmt.has_infinity:
        codes.append(("infinity", f"S.{ones}.{fraction_zeros}"))
    if fmt.nan == "ieee":
        codes.append(("NaN", f"S.{ones}.nonzero"))
    if fmt.nan == "all-ones":
        codes.append(("NaN", f"S.{ones}.{'1' * fmt.mantissa_bits}"))
    meaning = "NaN" if fmt.nan == "negative-zero" else "-0"
    codes.append((meaning, f"1.{zeros}.{fraction_zeros}"))
    return tuple(codes)
