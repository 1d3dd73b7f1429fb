"""Sums over tiles in fp64, in the order of the contract, on the device: two of each tile.

Under the rule ``quest`` these are the sums of the elements and of their squares; under the choice between two targets
the squared errors that each leaves.
"""

import triton
import triton.language as tl

from ._elements import round_to_grid
from ._scales import scales_of


@triton.jit
def sum_terms(x, word, amax, above, table, cast: tl.constexpr):
    """``(first, second)``: what each element of a block adds to its tile's sums (fp64)."""
    wide = x.to(tl.float64)
    if cast.rule == "quest":
        first, second = wide, wide * wide
    else:
        wide = wide * above.to(tl.float64)
        first = _squared_error(x, word, wide, scales_of(amax, above, cast.target, cast), table, cast)
        second = _squared_error(x, word, wide, scales_of(amax, above, cast.second_target, cast), table, cast)
    return first, second


@triton.jit
def _squared_error(x, word, wide, scales, table, cast: tl.constexpr):
    grid: tl.constexpr = cast.grid
    rounding: tl.constexpr = cast.rounding
    compared = scales[1] if cast.scale == "float" else scales[2]
    elements = round_to_grid(x * scales[0], word, table, grid, rounding)
    difference = elements.to(tl.float64) * compared.to(tl.float64) - wide
    return difference * difference


@triton.jit
def sum_by_halving(terms, geometry: tl.constexpr):
    """fp64 ``[NR, NC, 1]``: the sum over each unit, its second half added to the first again and again."""
    levels: tl.constexpr = geometry.unit_levels
    for level in tl.static_range(levels):
        terms = _add_halves(terms, geometry.row_units, geometry.column_units, geometry.unit_size >> (level + 1))
    return terms


@triton.jit
def _add_halves(values, rows: tl.constexpr, columns: tl.constexpr, half: tl.constexpr):
    """The second half of the last axis added to the first; a sum of two has one order."""
    return tl.sum(tl.reshape(values, (rows, columns, 2, half)), axis=2)


@triton.jit
def quest_reach(total, squares, count, cast: tl.constexpr):
    """How far a tile's scale is to reach, over the largest element (fp64): from its sums and count (fp64)."""
    mean = total / count
    variance = squares / count - mean * mean
    deviation = tl.sqrt(tl.where(variance < 0.0, 0.0, variance))
    return deviation * tl.full(deviation.shape, cast.quest_reach, tl.float64)
