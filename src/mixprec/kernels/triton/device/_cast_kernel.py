"""The kernel that casts a matrix: scales, elements, and what is written of them."""

import triton
import triton.language as tl

from ._bits import magnitude_bits
from ._codes import encode
from ._elements import round_to_grid
from ._scales import encode_scale, fp32_quant_scale, scales_of
from ._sums import quest_reach, sum_by_halving, sum_terms
from ._tiles import elements_of_tile, program_units, read_transformed, read_words, tile_in_axis


@triton.jit(do_not_specialize=["seed", "offset", "sign_seed", "sign_offset"])
def cast_kernel(
    memory, shape, seed: tl.int64, offset: tl.int64, sign_seed: tl.int64, sign_offset: tl.int64, cast: tl.constexpr
):
    """Cast a matrix.

    Args:
        memory: `mixprec.kernels.triton._launch.CastMemory`.
        shape: `mixprec.kernels.triton._launch.Shape`.
        seed: key of the elements' random words.
        offset: their offset.
        sign_seed: key of the transform's sign vector.
        sign_offset: its offset.
        cast: `mixprec.kernels.triton._plan.CastPlan`.
    """
    geometry: tl.constexpr = cast.geometry
    hadamard: tl.constexpr = cast.hadamard
    units = program_units(shape.padded_columns, geometry)
    x, row, column, inside = read_transformed(memory.x, units, shape, (sign_seed, sign_offset), geometry, hadamard)
    index = row * shape.padded_columns + column
    word = index  # not read unless random
    if cast.rounding == "stochastic":
        word = read_words(index, shape, (seed, offset), cast)
    row_tile, row_tiles, first_row = tile_in_axis(units[0], shape.padded_rows, geometry.tile_rows, geometry.unit_rows)
    column_tile, tiles, first_column = tile_in_axis(
        units[1], shape.padded_columns, geometry.tile_columns, geometry.unit_columns
    )
    tile, first = row_tile * tiles + column_tile, first_row & first_column
    there = (row_tile < row_tiles) & (column_tile < tiles)
    shared = largest_under_scale(x, memory, tile, there, cast)
    above = tensor_quant_scale(memory, cast)
    if cast.summed:
        total, other = _sums(x, word, (shared, above, tile, there), memory, cast)
        if cast.rule == "quest":
            shared = quest_reach(total, other, elements_of_tile(row_tile, column_tile, shape, geometry), cast)
    quant_scale, scale, outer = scales_of(shared, above, cast.target, cast)
    if cast.second_target > 0.0:
        second = scales_of(shared, above, cast.second_target, cast)
        quant_scale, scale = tl.where(other < total, second[0], quant_scale), tl.where(other < total, second[1], scale)
        outer = tl.where(other < total, second[2], outer)
    grid: tl.constexpr = cast.grid
    rounding: tl.constexpr = cast.rounding
    elements = round_to_grid(x * quant_scale, word, memory.table, grid, rounding)
    if cast.coded:
        tl.store(memory.result + index, encode(elements, memory.table, grid), mask=inside)
        if cast.coded_scales:
            tl.store(memory.scales + tile, encode_scale(scale, cast), mask=first)
    else:
        tl.store(memory.result + index, elements * scale, mask=inside)
    if cast.outer == "tiles":
        tl.store(memory.outer + tile, outer, mask=first)
    elif cast.outer == "tensor":  # the same in all tiles
        tl.store(memory.outer + tile * 0, outer, mask=(units[0] == 0) & (units[1] == 0))


@triton.jit
def largest_under_scale(x, memory, tile, there, cast: tl.constexpr):
    """Bits (int32) of the largest magnitude under each unit's scale, ``[NR, NC, 1]``."""
    if cast.scale == "none" or cast.rule == "quest":
        amax = (tile * 0).to(tl.int32)
    elif cast.own_tiles:
        amax = tl.max(magnitude_bits(x), axis=2, keep_dims=True)
    else:
        amax = tl.load(memory.amax + tile, mask=there, other=0)
    if cast.delayed:
        given = tl.load(memory.above) & 0x7FFFFFFF
        amax = tl.where(given > 0, given, amax)
    return amax


@triton.jit
def tensor_quant_scale(memory, cast: tl.constexpr):
    """The tensor's quant_scale, which block scales stand under; 1 if there is none."""
    if cast.above_target > 0.0:
        above = fp32_quant_scale(tl.load(memory.above), cast.above_target)
    else:
        above = tl.full((), 1.0, tl.float32)
    return above


@triton.jit
def _sums(x, word, tiles, memory, cast: tl.constexpr):
    """Both sums (fp64) of the units' tiles; ``tiles``: their amax, the tensor's quant_scale, places, existence."""
    geometry: tl.constexpr = cast.geometry
    if cast.own_tiles:
        first, second = sum_terms(x, word, tiles[0], tiles[1], memory.table, cast)
        total, other = sum_by_halving(first, geometry), sum_by_halving(second, geometry)
    else:
        total = tl.load(memory.sums[0] + tiles[2], mask=tiles[3], other=0.0)
        other = tl.load(memory.sums[1] + tiles[2], mask=tiles[3], other=0.0)
    return total, other
