"""What a number format is: a literal of facts, from which everything else is derived."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Nan = Literal["none", "ieee", "all-ones", "negative-zero"]
Kind = Literal["float", "integer", "exponent"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A grid of numbers, every one of which fp32 holds exactly.

    Attributes:
        name: the registered name, e.g. ``"e4m3"``.
        kind: ``"float"`` (sign, exponent, mantissa), ``"integer"`` (two's complement with an implied
            scale of ``2**-mantissa_bits``), ``"exponent"`` (an unsigned power of two: E8M0).
        exponent_bits: width of the exponent field (0 for an integer).
        mantissa_bits: width of the stored mantissa (for an integer: its fractional bits).
        bias: exponent bias (for an integer 0: all values share the exponent 0).
        has_infinity: whether the top exponent's zero mantissa is an infinity.
        nan: ``"ieee"`` (top exponent, nonzero mantissa), ``"all-ones"`` (only S.11..1),
            ``"negative-zero"`` (only the code that would be -0: the FNUZ formats), ``"none"``.
        max_value: the largest finite value; checked against the other facts.
        has_subnormals: whether exponent field 0 is the subnormal range.
        has_negative_zero: whether -0 has a code of its own.
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
    source: str = ""

    def __post_init__(self) -> None:
        problem = _contradiction(self)
        if problem:
            raise ValueError(f"format '{self.name}': {problem}")

    @property
    def bits(self) -> int:
        """Width of a code in bits, as stored (TF32 counts its 19 used bits)."""
        if self.kind == "exponent":
            return self.exponent_bits
        if self.kind == "integer":
            return 2 + self.mantissa_bits
        return 1 + self.exponent_bits + self.mantissa_bits

    @cached_property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value; below it the spacing is constant."""
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
        """Code of the largest finite value; positive codes up to it are finite and in order."""
        return largest_code(self.kind, self.exponent_bits, self.mantissa_bits, self.nan)

    @property
    def min_normal(self) -> float:
        """The smallest normal value (for an integer 1.0: below it precision falls bit by bit)."""
        return 2.0**self.min_exponent

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value."""
        return 2.0 ** (self.min_exponent - self.mantissa_bits) if self.has_subnormals else self.min_normal

    @property
    def unit_roundoff(self) -> float:
        """Half the relative spacing of normal values: ``2**-(mantissa_bits + 1)``."""
        return 2.0 ** -(self.mantissa_bits + 1)


def _contradiction(fmt: Format) -> str:
    """Say what is wrong with a literal, or nothing."""
    if fmt.kind != "integer" and not 1 <= fmt.exponent_bits <= 8:
        return f"exponent_bits is {fmt.exponent_bits}, expected 1 to 8 so that fp32 holds every value"
    if not 0 <= fmt.mantissa_bits <= 23:
        return f"mantissa_bits is {fmt.mantissa_bits}, expected 0 to 23 so that fp32 holds every value"
    if fmt.has_infinity != (fmt.nan == "ieee"):
        return f"has_infinity is {fmt.has_infinity} with nan='{fmt.nan}'; an infinity comes with nan='ieee' only"
    if fmt.nan == "ieee" and (fmt.mantissa_bits == 0 or fmt.exponent_bits < 2):
        return "nan='ieee' needs at least 1 mantissa bit and 2 exponent bits"
    signed_zero = fmt.kind == "float" and fmt.nan != "negative-zero"
    if fmt.has_negative_zero and not signed_zero:
        return "has_negative_zero is True, but no code is left for -0"
    largest = finite_magnitude(fmt.kind, fmt.max_code, fmt.mantissa_bits, fmt.bias)
    if fmt.max_value != largest:
        return f"max_value is {fmt.max_value}, but the other facts give {largest}"
    if fmt.max_exponent > 127 or fmt.min_subnormal < 2.0**-149:
        return f"values from {fmt.min_subnormal} to {fmt.max_value} leave the range of fp32; change the bias"
    return ""


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
