"""What the device code is compiled for: a grid of numbers, as plain facts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .._parameters import ElementParameters

GridKind = Literal["float", "integer", "table"]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """An element grid without its table, which lies in memory; a compile-time constant of the kernels.

    Attributes:
        kind: how codes are read.
        mantissa_bits: as in `ElementParameters`, and so on to `infinity_code`.
        sign_bits: 1 where codes have a sign bit.
        zero_code: the code of 0.
        top: the significand of the largest value as 23 bits of mantissa, for the MX rule ``rceil``.
    """

    kind: GridKind
    mantissa_bits: int
    min_exponent: int
    max_exponent: int
    max_value: float
    overflow_value: float
    infinity_value: float
    signed_zero: bool
    bits: int
    sign_bits: int
    nan_code: int
    infinity_code: int
    zero_code: int
    top: int


@lru_cache(maxsize=1024)
def grid_of(parameters: ElementParameters) -> Grid:
    """The facts of a grid that its kernels are compiled for.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> grid_of(cast_parameters(parse_cast("e2m1")).grid).bits
        4
    """
    kind: GridKind = "table" if parameters.table else "integer" if parameters.integer else "float"
    zero_code = parameters.table_codes[parameters.table.index(0.0)] if parameters.table else 0
    significand = parameters.max_value * 2.0**-parameters.max_exponent
    return Grid(
        kind=kind,
        mantissa_bits=parameters.mantissa_bits,
        min_exponent=parameters.min_exponent,
        max_exponent=parameters.max_exponent,
        max_value=parameters.max_value,
        overflow_value=parameters.overflow_value,
        infinity_value=parameters.infinity_value,
        signed_zero=parameters.signed_zero,
        bits=parameters.bits,
        sign_bits=parameters.sign_bits if kind == "float" else 0,
        nan_code=parameters.nan_code,
        infinity_code=parameters.infinity_code,
        zero_code=zero_code,
        top=round((significand - 1.0) * 2**23),
    )
