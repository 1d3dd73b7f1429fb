"""Rounding to a table's numbers on the device, by a search; `mixprec.kernels.triton._table` lays the tables out."""

import triton
import triton.language as tl

# Rows of a laid-out table.
NUMBERS = tl.constexpr(1)
CODES = tl.constexpr(2)
DECODED = tl.constexpr(3)


@triton.jit
def round_to_table(x, word, table, grid: tl.constexpr, rounding: tl.constexpr):
    """Every element of an fp32 block rounded to one of a table's numbers; NaN gives some number."""
    place = find_place(x, table, grid)
    number = tl.load(table + (NUMBERS << grid.bits) + place)
    if rounding == "stochastic":
        # The place is that of the number below; toward zero lies that one, or the next where they are negative.
        following = tl.minimum(place + 1, (1 << grid.bits) - 1)
        above = tl.load(table + (NUMBERS << grid.bits) + following)
        inner, outer = tl.where(number < 0.0, above, number), tl.where(number < 0.0, number, above)
        low, high = tl.abs(inner).to(tl.float64), tl.abs(outer).to(tl.float64)
        fraction = (tl.abs(x).to(tl.float64) - low) / tl.where(high > low, high - low, 1.0)
        fraction = tl.minimum(tl.maximum(fraction, 0.0), 1.0)  # beyond the ends there is one number
        number = tl.where(word.to(tl.int64) < (fraction * 4294967296.0).to(tl.int64), outer, inner)
    return number


@triton.jit
def find_place(x, table, grid: tl.constexpr):
    """How many of the thresholds an element reaches: its place (int32) in the table; 0 for NaN."""
    place = x.to(tl.int32, bitcast=True) * 0
    levels: tl.constexpr = grid.bits
    for level in tl.static_range(levels):
        step = 1 << (levels - 1 - level)
        place += tl.where(x >= tl.load(table + place + (step - 1)), step, 0)
    return place
