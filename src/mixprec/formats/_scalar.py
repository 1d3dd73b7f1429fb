"""The truth of every rounding: one number at a time, in integers, exact.

A magnitude is handled as its code. Codes of positive numbers are ordered as the numbers are, so that
"the exponent unbounded" is a code beyond ``max_code``, rounding up is adding one, and ties go to the
even code.
"""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from typing import Literal

from ._format import Format, finite_magnitude
from ._names import unknown_name
from ._registry import get_format

Rounding = Literal["nearest-even", "stochastic", "toward-zero"]
Overflow = Literal["saturate", "propagate"]

ROUNDINGS: tuple[Rounding, ...] = ("nearest-even", "stochastic", "toward-zero")
OVERFLOWS: tuple[Overflow, ...] = ("saturate", "propagate")

_TWO_53 = 9007199254740992.0


def round(
    fmt: Format | str,
    x: float,
    *,
    rounding: Rounding = "nearest-even",
    bits: int | None = None,
    overflow: Overflow = "saturate",
) -> float:
    """Round a number to a format's grid, exactly.

    Args:
        fmt: the format or its name.
        x: any Python float.
        rounding: ``"nearest-even"`` (ties to the even code), ``"toward-zero"`` (the magnitude is
            truncated), or ``"stochastic"``: the magnitude rounds up iff
            ``bits < floor(2**32 * fraction)``, where ``fraction`` is the exact position of ``x``
            between its two neighbours.
        bits: 32 random bits; for stochastic rounding only, which requires them.
        overflow: judged after rounding with the exponent unbounded. ``"saturate"``: the largest value.
            ``"propagate"``: infinity where the format has one, else NaN where it has one, else the
            largest value. Under toward-zero only an infinite ``x`` overflows.

    Returns:
        A value of the grid. NaN stays NaN for every format. The sign of zero is kept where the format
        has -0. A negative number becomes NaN in a format without sign, unless it rounds to zero. E8M0 has
        no zero either: what is below its smallest value becomes its smallest value. In a table, ties go to the even
        place in ascending order, and the fraction of stochastic rounding is a quotient of fp64.

    Raises:
        ValueError: an unknown name, or bits missing, out of range or without use.

    Source: IEEE 754-2019 sections 4.3 and 7.4, for formats of any width.

    Example:
        >>> round("e4m3", 464.0), round("e4m3", 465.0, overflow="propagate")
        (448.0, nan)
        >>> round("e2m1", 0.6, rounding="stochastic", bits=0)     # 0.6 = 0.5 + 0.2 * 0.5
        1.0
    """
    if isinstance(fmt, str):
        fmt = get_format(fmt)
    _check_options(rounding, bits, overflow)
    if x != x:
        return x
    if fmt.kind == "table":
        return _round_in_table(fmt, x, rounding, bits or 0)
    code = fmt.max_code + 1 if math.isinf(x) else _magnitude_code(fmt, abs(x), rounding, bits or 0)
    if code <= fmt.max_code:
        magnitude = _magnitude(fmt, code)
    elif rounding == "toward-zero" and not math.isinf(x):
        magnitude = fmt.max_value
    else:
        magnitude = _overflowed(fmt, overflow)
    if x > 0 or (x == 0 and (magnitude > 0 or math.copysign(1.0, x) > 0)):
        return magnitude
    if not fmt.signed or fmt.kind == "exponent":
        return 0.0 if not magnitude else math.nan
    return -magnitude if magnitude or fmt.has_negative_zero else 0.0


def encode(fmt: Format | str, value: float) -> int:
    """Give the code of a number, which is first rounded to nearest-even, saturating, where it is off the grid.

    Args:
        fmt: the format or its name.
        value: any Python float.

    Returns:
        The code: sign, exponent, mantissa from the high bit to the low; two's complement for an integer;
        the biased exponent for E8M0. NaN gives the positive quiet NaN (the mantissa's high bit alone), or
        the format's only one; an infinity gives its code.

    Raises:
        ValueError: an unknown name; NaN or an infinity, and the format has no code for it.

    Example:
        >>> hex(encode("e4m3", 1.0)), hex(encode("e4m3", float("nan"))), hex(encode("int8", -1.0))
        ('0x38', '0x7f', '0xc0')
    """
    if isinstance(fmt, str):
        fmt = get_format(fmt)
    if math.isinf(value):
        if not fmt.has_infinity:
            raise ValueError(f"{value} has no code in '{fmt.name}': round it first, or use a format with infinities")
        return _signed(fmt, fmt.max_code + 1, value < 0)
    rounded = round(fmt, value)
    if fmt.kind == "table" and rounded == rounded:
        return fmt.values.index(rounded)
    if rounded != rounded:
        return _nan_code(fmt)
    code = _magnitude_code(fmt, abs(rounded), "toward-zero", 0)
    return _signed(fmt, code, math.copysign(1.0, rounded) < 0)


def decode(fmt: Format | str, code: int) -> float:
    """Give the number that a code stands for.

    Args:
        fmt: the format or its name.
        code: an integer of ``fmt.bits`` bits, as ``encode`` lays them out.

    Returns:
        The value, exactly. The integer format's most negative code, which ``encode`` never gives,
        decodes to -2.0.

    Raises:
        ValueError: an unknown name, or a code of more bits than the format has.

    Example:
        >>> decode("e2m1", 0b0111), decode("e8m0", 127), decode("int8", 0x80)
        (6.0, 1.0, -2.0)
    """
    if isinstance(fmt, str):
        fmt = get_format(fmt)
    if not 0 <= code < 1 << fmt.bits:
        raise ValueError(f"code {code} does not fit '{fmt.name}': expected 0 to {(1 << fmt.bits) - 1}")
    if fmt.kind == "table":
        return fmt.values[code]
    if fmt.kind == "exponent":
        return math.ldexp(1.0, code - fmt.bias) if code <= fmt.max_code else math.nan
    half = 1 << (fmt.bits - 1)
    if fmt.kind == "integer":
        return math.ldexp(code - 2 * half if code >= half else code, -fmt.mantissa_bits)
    negative, code = (code >= half, code % half) if fmt.signed else (False, code)
    if negative and code == 0 and fmt.nan == "negative-zero":
        return math.nan
    if code <= fmt.max_code:
        magnitude = _magnitude(fmt, code)
    else:
        magnitude = math.inf if fmt.has_infinity and code == fmt.max_code + 1 else math.nan
    return -magnitude if negative else magnitude


def _check_options(rounding: Rounding, bits: int | None, overflow: Overflow) -> None:
    if rounding not in ROUNDINGS:
        raise unknown_name("rounding", rounding, ROUNDINGS)
    if overflow not in OVERFLOWS:
        raise unknown_name("overflow", overflow, OVERFLOWS)
    if rounding == "stochastic":
        if bits is None or not 0 <= bits < 1 << 32:
            raise ValueError(f"stochastic rounding got bits={bits}, expected 32 random bits (0 to 2**32 - 1)")
    elif bits is not None:
        raise ValueError(f"{rounding} rounding got bits={bits}, expected none: only stochastic rounding uses them")


def _magnitude_code(fmt: Format, x: float, rounding: Rounding, bits: int) -> int:
    """Round ``x >= 0``, finite, and give its code, beyond ``max_code`` where the exponent is too large."""
    if x == 0:
        return 0
    fraction, exponent = math.frexp(x)
    significand, exponent = int(fraction * _TWO_53), exponent - 53  # x == significand * 2**exponent
    width = fmt.mantissa_bits
    lowest = fmt.min_exponent
    binade = exponent + 52 - lowest  # how many binades x lies above the smallest normal
    if fmt.kind == "integer":
        binade = 0
    elif binade < 0:
        if fmt.kind == "exponent":
            return 0
        if not fmt.has_subnormals:  # two neighbours only: 0 and the smallest normal
            return _round_up(significand, lowest - exponent, 0, rounding, bits) << width
        binade = 0
    shift = binade + lowest - width - exponent
    base = binade - 1 if fmt.kind == "exponent" else binade << width
    if shift <= 0:
        return base + (significand << -shift)
    return _round_up(significand, shift, base, rounding, bits)


def _round_up(significand: int, shift: int, base: int, rounding: Rounding, bits: int) -> int:
    """Drop the low ``shift`` bits, add ``base``, and go one code up where the rounding says so."""
    code = base + (significand >> shift)
    dropped = significand & ((1 << shift) - 1)
    if rounding == "nearest-even":
        half = 1 << (shift - 1)
        return code + (dropped > half or (dropped == half and code & 1 == 1))
    if rounding == "stochastic":
        return code + (bits < (dropped << 32) >> shift)
    return code


def _round_in_table(fmt: Format, x: float, rounding: Rounding, bits: int) -> float:
    """Choose between the two neighbours of ``x`` in a table; beyond its ends there is only the end."""
    grid = fmt.grid
    if not grid[0] < x < grid[-1]:
        return grid[0] if x <= grid[0] else grid[-1]
    above = bisect.bisect_left(grid, x)
    if grid[above] == x:
        return grid[above]
    # Zero is in the table, so that both neighbours lie on one side of it.
    inner, outer = (above - 1, above) if x > 0 else (above, above - 1)
    low, high = abs(grid[inner]), abs(grid[outer])
    if rounding == "toward-zero":
        return grid[inner]
    if rounding == "stochastic":
        return grid[outer if bits < int((abs(x) - low) / (high - low) * 2.0**32) else inner]
    doubled, middle = 2 * Fraction(abs(x)), Fraction(low) + Fraction(high)
    return grid[outer if doubled > middle or (doubled == middle and outer % 2 == 0) else inner]


def _magnitude(fmt: Format, code: int) -> float:
    """Decode a finite positive code; without subnormals, exponent field 0 is zero."""
    if not fmt.has_subnormals and fmt.kind == "float" and code < 1 << fmt.mantissa_bits:
        return 0.0
    return finite_magnitude(fmt.kind, code, fmt.mantissa_bits, fmt.bias)


def _overflowed(fmt: Format, overflow: Overflow) -> float:
    if overflow == "saturate" or fmt.nan == "none":
        return fmt.max_value
    return math.inf if fmt.has_infinity else math.nan


def _signed(fmt: Format, code: int, negative: bool) -> int:
    if not negative:
        return code
    if fmt.kind == "integer":
        return -code % (1 << fmt.bits)
    return code | 1 << (fmt.bits - 1)


def _nan_code(fmt: Format) -> int:
    if fmt.nan == "none":
        raise ValueError(f"NaN has no code in '{fmt.name}': use a format with NaN, or a NaN scale for the block")
    if fmt.nan == "negative-zero":
        return 1 << (fmt.bits - 1)
    quiet = 1 << (fmt.mantissa_bits - 1) if fmt.nan == "ieee" else 0
    return fmt.max_code + 1 + quiet
