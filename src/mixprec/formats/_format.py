"""What a number format is: a literal of facts, from which everything else is derived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Nan = Literal["none", "ieee", "all-ones"]
Kind = Literal["float", "integer", "exponent"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A grid of numbers.

    Attributes:
        name: the registered name, e.g. ``"e4m3"``.
        kind: ``"float"`` (sign, exponent, mantissa), ``"integer"`` (two's complement with an implied
            scale of ``2**-mantissa_bits``), ``"exponent"`` (an unsigned power of two: E8M0).
        exponent_bits: width of the exponent field (0 for an integer).
        mantissa_bits: width of the stored mantissa (for an integer: its fractional bits).
        bias: exponent bias (for an integer 0: all values share the exponent 0).
        has_infinity: whether the top exponent's zero mantissa is an infinity.
        nan: ``"ieee"`` (top exponent, nonzero mantissa), ``"all-ones"`` (only S.11..1), ``"none"``.
        max_value: the largest finite value.
        has_subnormals: whether exponent field 0 is the subnormal range.
        has_negative_zero: whether -0 has a code of its own.
        source: where the facts come from.
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

    @property
    def bits(self) -> int:
        """Width of a code in bits, as stored (TF32 counts its 19 used bits)."""
        if self.kind == "exponent":
            return self.exponent_bits
        if self.kind == "integer":
            return 8
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
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
        import math

        return math.frexp(self.max_value)[1] - 1

    @property
    def min_normal(self) -> float:
        """The smallest normal value."""
        return 2.0**self.min_exponent

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value."""
        return 2.0 ** (self.min_exponent - self.mantissa_bits) if self.has_subnormals else self.min_normal

    @property
    def unit_roundoff(self) -> float:
        """Half the relative spacing of normal values: ``2**-(mantissa_bits + 1)``."""
        return 2.0 ** -(self.mantissa_bits + 1)
