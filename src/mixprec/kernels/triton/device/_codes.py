"""Codes of a grid's numbers on the device."""

import triton
import triton.language as tl

from ._bits import magnitude_bits, negate_where, power_of_two
from ._elements import place_on_grid
from ._table import CODES, DECODED, find_place


@triton.jit
def encode(values, table, grid: tl.constexpr):
    """Codes (int32, the low ``bits`` of them) of fp32 values that lie on the grid; NaN as `ElementParameters` says."""
    bits = magnitude_bits(values)
    if grid.kind == "table":
        code = tl.load(table + (CODES << grid.bits) + find_place(values, table, grid)).to(tl.int32)
        code = tl.where(values == values, code, grid.zero_code)
    elif grid.kind == "integer":
        number = tl.where(values == values, values, 0.0)
        code = (number * (1 << grid.mantissa_bits)).to(tl.int32) & ((1 << grid.bits) - 1)
    else:
        finite = bits < 0x7F800000
        significand, unit, shift = place_on_grid(tl.where(finite, bits, 0), grid)
        # The place holds the implicit leading bit of a normal value, which adds 1 to the exponent's field.
        field = unit + grid.mantissa_bits - grid.min_exponent
        code = (field << grid.mantissa_bits) + (significand >> tl.minimum(shift, 31))
        code = tl.where(finite, code, grid.infinity_code)
        if grid.sign_bits == 1:
            code |= (values.to(tl.int32, bitcast=True) < 0).to(tl.int32) << (grid.bits - 1)
        code = tl.where(values == values, code, max(grid.nan_code, 0))
    return code


@triton.jit
def decode(codes, table, grid: tl.constexpr):
    """fp32 values of int32 codes without other bits than the code's (of 32-bit codes: all)."""
    if grid.kind == "table":
        value = tl.load(table + (DECODED << grid.bits) + codes)
    elif grid.kind == "integer":
        signed = codes - ((codes & (1 << (grid.bits - 1))) << 1)
        value = signed.to(tl.float32) * power_of_two(codes * 0 - grid.mantissa_bits)
    else:
        value = _decode_float(codes, grid)
    return value


@triton.jit
def _decode_float(codes, grid: tl.constexpr):
    body_bits: tl.constexpr = grid.bits - grid.sign_bits
    body = codes & ((1 << body_bits) - 1)
    field, mantissa = body >> grid.mantissa_bits, body & ((1 << grid.mantissa_bits) - 1)
    place = tl.where(field > 0, mantissa + (1 << grid.mantissa_bits), mantissa)
    unit = tl.maximum(field - 1, 0) + (grid.min_exponent - grid.mantissa_bits)
    magnitude = place.to(tl.float32) * power_of_two(tl.minimum(unit, 127))
    # What the top exponent would hold beyond the largest value is not a number of the format.
    special = tl.where(body == grid.infinity_code, float("inf"), float("nan"))
    magnitude = tl.where(magnitude > grid.max_value, special, magnitude)
    magnitude = tl.where(codes == grid.nan_code, float("nan"), magnitude)  # FNUZ: the code of -0
    negative = ((codes >> body_bits) & 1) == 1 if grid.sign_bits == 1 else codes != codes
    return negate_where(negative, magnitude)
