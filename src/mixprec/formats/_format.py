"""What a number format is: a literal of facts, from which everything else is derived."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

Nan = Literal["none", "ieee", "all-ones", "negative-zero"]
Kind = Literal["float", "integer", "exponent", "table"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A grid of numbers, every one of which fp32 holds exactly.

    Attributes:
        name: the registered name, e.g. ``"e4m3"``.
        kind: ``"float"`` (sign, exponent, mantissa), ``"integer"`` (two's complement with an implied
            scale of ``2**-mantissa_bits``), ``"exponent"`` (an unsigned power of two: E8M0), ``"table"``
            (the numbers of ``values``).
        exponent_bits: width of the exponent field (0 for an integer).
        mantissa_bits: width of the stored mantissa (for an integer: its fractional bits).
        bias: exponent bias (for an integer 0: all values share the exponent 0).
        has_infinity: whether the top exponent's zero mantissa is an infinity.
        nan: ``"ieee"`` (top exponent, nonzero mantissa), ``"all-ones"`` (only S.11..1),
            ``"negative-zero"`` (only the code that would be -0: the FNUZ formats), ``"none"``.
        max_value: the largest finite value; checked against the other facts.
        has_subnormals: whether exponent field 0 is the subnormal range.
        has_negative_zero: whether -0 has a code of its own.
        signed: whether there is a sign bit. A format without serves as a scale, not as an element.
        values: of a table: the number of each code, from code 0 on; empty otherwise.
        source: where the facts come from.

    Raises:
        ValueError: the facts contradict each other, or fp32 cannot hold the values.

    Example:
        >>> e2m1 = Format(name="e2m1", exponent_bits=2, mantissa_bits=1, bias=1, has_infinity=False,
        ...               nan="none", max_value=6.0)
        >>> e2m1.bits, e2m1.min_normal, e2m1.min_subnormal, e2m1.max_code
        (4, 1.0, 0.5, 7)
    """

    name: str
    kind: Kind = "float"
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool
    nan: Nan
    max_value: float
    has_subnormals: bool = True
    has_negative_zero: bool = True
    signed: bool = True
    values: tuple[float, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        problem = _table_contradiction(self) if self.kind == "table" else _contradiction(self)
        if problem:
            raise ValueError(f"format '{self.name}': {problem}")

    @property
    def bits(self) -> int:
        """Width of a code in bits, as stored (TF32 counts its 19 used bits)."""
        if self.kind == "table":
            return (len(self.values) - 1).bit_length()
        if self.kind == "exponent":
            return self.exponent_bits
        if self.kind == "integer":
            return 2 + self.mantissa_bits
        return self.signed + self.exponent_bits + self.mantissa_bits

    @cached_property
    def grid(self) -> tuple[float, ...]:
        """A table's numbers in ascending order; empty for other kinds."""
        return tuple(sorted(self.values))

    @cached_property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value, below which the spacing is constant (a table's: of its smallest)."""
        if self.kind == "table":
            return math.frexp(self.min_subnormal)[1] - 1
        if self.kind == "integer":
            return 0
        if self.kind == "exponent":
            return -self.bias
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite value (``emax`` of the MX specification)."""
        return math.frexp(self.max_value)[1] - 1

    @cached_property
    def max_code(self) -> int:
        """Code of the largest finite value; outside of a table, positive codes up to it are finite and in order."""
        if self.kind == "table":
            return self.values.index(self.grid[-1])
        return largest_code(self.kind, self.exponent_bits, self.mantissa_bits, self.nan)

    @property
    def min_normal(self) -> float:
        """The smallest normal value (an integer's: 1.0, below which precision falls; a table's: its smallest)."""
        if self.kind == "table":
            return self.min_subnormal
        return 2.0**self.min_exponent

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value."""
        if self.kind == "table":
            return min(value for value in self.values if value > 0)
        return 2.0 ** (self.min_exponent - self.mantissa_bits) if self.has_subnormals else self.min_normal

    @property
    def unit_roundoff(self) -> float:
        """Half the relative spacing of normal values: ``2**-(mantissa_bits + 1)``.

        Of a table: half its widest gap over its largest value.
        """
        if self.kind == "table":
            return max(b - a for a, b in itertools.pairwise(self.grid)) / (2 * self.max_value)
        return 2.0 ** -(self.mantissa_bits + 1)

    @cached_property
    def significant_bits(self) -> int:
        """Bits from the leading to the last nonzero one that a number of the format needs at most.

        Of a table: of the longest of its numbers.
        """
        if self.kind != "table":
            return self.mantissa_bits + 1
        # A number of fp32 is an odd integer times a power of two; as a quotient, it keeps the even part of a whole one.
        wholes = (abs(value.as_integer_ratio()[0]) for value in self.values)
        return max((whole // (whole & -whole)).bit_length() for whole in wholes if whole)


def _contradiction(fmt: Format) -> str:
    """Say what is wrong with a literal, or nothing."""
    if fmt.values:
        return f"kind '{fmt.kind}' got values; only kind 'table' has them"
    if fmt.kind != "integer" and not 1 <= fmt.exponent_bits <= 8:
        return f"exponent_bits is {fmt.exponent_bits}, expected 1 to 8 so that fp32 holds every value"
    if not 0 <= fmt.mantissa_bits <= 23:
        return f"mantissa_bits is {fmt.mantissa_bits}, expected 0 to 23 so that fp32 holds every value"
    if fmt.has_infinity != (fmt.nan == "ieee"):
        return f"has_infinity is {fmt.has_infinity} with nan='{fmt.nan}'; an infinity comes with nan='ieee' only"
    if fmt.nan == "ieee" and (fmt.mantissa_bits == 0 or fmt.exponent_bits < 2):
        return "nan='ieee' needs at least 1 mantissa bit and 2 exponent bits"
    if not fmt.signed and (fmt.kind != "float" or fmt.nan == "negative-zero"):
        return "signed=False is for floats whose NaN is not the code of -0"
    signed_zero = fmt.kind == "float" and fmt.signed and fmt.nan != "negative-zero"
    if fmt.has_negative_zero and not signed_zero:
        return "has_negative_zero is True, but no code is left for -0"
    largest = finite_magnitude(fmt.kind, fmt.max_code, fmt.mantissa_bits, fmt.bias)
    if fmt.max_value != largest:
        return f"max_value is {fmt.max_value}, but the other facts give {largest}"
    if fmt.max_exponent > 127 or fmt.min_subnormal < 2.0**-149:
        return f"values from {fmt.min_subnormal} to {fmt.max_value} leave the range of fp32; change the bias"
    return ""


def _table_contradiction(fmt: Format) -> str:
    """Say what is wrong with a table's literal, or nothing."""
    grid = fmt.grid
    if not 2 < len(grid) <= 256 or len(set(grid)) != len(grid) or len(grid) & (len(grid) - 1):
        return (
            f"a table of {len(grid)} values, {len(set(grid))} of them distinct; expected 4, 8, ... or 256 distinct ones"
        )
    if 0.0 not in grid or not grid[0] < 0 < grid[-1]:
        return "a table needs zero, negative and positive values"
    if any(value != _as_fp32(value) for value in grid):
        return "a table's values must be values of fp32"
    if fmt.max_value != min(grid[-1], -grid[0]):
        return f"max_value is {fmt.max_value}, but the largest magnitude of both signs is {min(grid[-1], -grid[0])}"
    if any(Fraction(a + b) != Fraction(a) + Fraction(b) for a, b in itertools.pairwise(grid)):
        return "neighbours lie so far apart that fp64 cannot hold their middle"
    widths = (fmt.exponent_bits, fmt.mantissa_bits, fmt.bias)
    if widths != (0, 0, 0) or fmt.has_infinity or fmt.nan != "none" or fmt.has_negative_zero or not fmt.signed:
        return "a table has no exponent, mantissa, bias, infinity, NaN or -0, and is signed"
    return ""


def _as_fp32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def largest_code(kind: Kind, exponent_bits: int, mantissa_bits: int, nan: Nan) -> int:
    """Derive the code of the largest finite value from the other facts of a format."""
    if kind == "integer":
        return (1 << (mantissa_bits + 1)) - 1
    top = (1 << (exponent_bits + mantissa_bits)) - 1
    if nan == "ieee":
        return top - (1 << mantissa_bits)
    return top - 1 if nan == "all-ones" else top


def finite_magnitude(kind: Kind, code: int, mantissa_bits: int, bias: int) -> float:
    """Decode a positive finite code: the value of any format that has subnormals, and of E8M0."""
    if kind == "exponent":
        return math.ldexp(1.0, code - bias)
    if kind == "integer":
        return math.ldexp(code, -mantissa_bits)
    field = code >> mantissa_bits
    if field == 0:
        return math.ldexp(code, 1 - bias - mantissa_bits)
    return math.ldexp(code - ((field - 1) << mantissa_bits), field - bias - mantissa_bits)
