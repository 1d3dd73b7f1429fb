"""Rounding to a grid on the device, in integer arithmetic on fp32's bits."""

import triton
import triton.language as tl

from ._bits import magnitude_bits, negate_where, power_of_two, split_magnitude
from ._table import round_to_table


@triton.jit
def round_to_grid(x, word, table, grid: tl.constexpr, rounding: tl.constexpr):
    """Every element of an fp32 block rounded to a grid.

    Args:
        x: fp32.
        word: random words (uint32) in the shape of x; read for stochastic rounding only.
        table: address of the grid's numbers, as `mixprec.kernels.triton._table` lays them out; of tables only.
        grid: the facts of the grid.
        rounding: ``"nearest-even"``, ``"stochastic"`` or ``"toward-zero"``.
    """
    if grid.kind == "table":
        result = round_to_table(x, word, table, grid, rounding)
    else:
        bits = magnitude_bits(x)
        finite = bits < 0x7F800000
        rounded = round_magnitude(tl.where(finite, bits, 0), word, grid, rounding)
        rounded = tl.where(rounded > grid.max_value, grid.overflow_value, rounded)
        rounded = tl.where(finite, rounded, grid.infinity_value)
        negative = x.to(tl.int32, bitcast=True) < 0
        if not grid.signed_zero:
            negative = negative & (rounded != 0.0)
        result = negate_where(negative, rounded)
    return tl.where(x == x, result, float("nan"))


@triton.jit
def round_magnitude(bits, word, grid: tl.constexpr, rounding: tl.constexpr):
    """A finite magnitude rounded to the grid that has no upper end: fp32, infinite beyond fp32's largest."""
    significand, unit, shift = place_on_grid(bits, grid)
    cut = tl.minimum(shift, 25)  # a significand has 24 bits: from 25 on all of it is below one half
    lower = significand >> cut
    rest = significand - (lower << cut)
    if rounding == "nearest-even":
        up = rest * 2 + (lower & 1) > ((lower * 0 + 1) << cut)
        lower += up.to(tl.int32)
    elif rounding == "stochastic":
        # floor(2**32 * rest / 2**shift)
        raised = rest.to(tl.uint32) << tl.minimum(tl.maximum(32 - shift, 0), 31).to(tl.uint32)
        threshold = raised >> tl.minimum(tl.maximum(shift - 32, 0), 31).to(tl.uint32)
        lower += (word < threshold).to(tl.int32)
    return _whole_number(lower, grid) * power_of_two(unit)


@triton.jit
def _whole_number(count, grid: tl.constexpr):
    """fp32 of a count of the grid's units up to ``2**(mantissa_bits + 1)``; conversions are slow on a GPU."""
    if grid.mantissa_bits <= 21:
        number = (count | 0x4B000000).to(tl.float32, bitcast=True) - 8388608.0  # 2**23 + count, less 2**23
    else:
        number = count.to(tl.float32)
    return number


@triton.jit
def place_on_grid(bits, grid: tl.constexpr):
    """``(significand, unit, shift)``: the magnitude is ``significand / 2**shift`` units of ``2**unit``."""
    if grid.min_exponent < -126:
        significand, exponent = split_magnitude(bits)
    else:  # fp32's subnormals lie where the spacing is that of the grid's: they need not be normalised
        field = tl.maximum(bits >> 23, 1)
        exponent = field - 127
        significand = tl.where(bits > 0x7FFFFF, (bits & 0x7FFFFF) | 0x800000, bits)
    unit = tl.maximum(exponent, grid.min_exponent) - grid.mantissa_bits
    return significand, unit, unit - exponent + 23
