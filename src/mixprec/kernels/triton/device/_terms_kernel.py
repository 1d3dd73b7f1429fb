"""The kernel that lays out the terms of tiles' sums in memory, for tiles that no program holds at once."""

import triton
import triton.language as tl

from ._cast_kernel import largest_under_scale, tensor_quant_scale
from ._sums import sum_terms
from ._tiles import program_units, read_block, read_words, tile_in_axis


@triton.jit(do_not_specialize=["seed", "offset"])
def terms_kernel(memory, terms, shape, seed: tl.int64, offset: tl.int64, cast: tl.constexpr):
    """Write the terms of both sums: fp64 ``[2, tiles, padded elements of a tile]``, zeros before.

    Args:
        memory: as of the cast.
        terms: address of the result, and how many numbers a sum has in it.
        shape: `mixprec.kernels.triton._launch.Shape`.
        seed: key of the elements' random words.
        offset: their offset.
        cast: `mixprec.kernels.triton._plan.CastPlan`, without a transform.
    """
    geometry: tl.constexpr = cast.geometry
    units = program_units(shape.padded_columns, geometry)
    x, row, column, inside = read_block(memory.x, units, shape, geometry)
    word = row
    if cast.rounding == "stochastic":
        word = read_words(row * shape.padded_columns + column, shape, (seed, offset), cast)
    row_tile, row_tiles, _ = tile_in_axis(units[0], shape.padded_rows, geometry.tile_rows, geometry.unit_rows)
    column_tile, tiles, _ = tile_in_axis(units[1], shape.padded_columns, geometry.tile_columns, geometry.unit_columns)
    tile = row_tile * tiles + column_tile
    there = (row_tile < row_tiles) & (column_tile < tiles)
    amax = largest_under_scale(x, memory, tile, there, cast)
    first, second = sum_terms(x, word, amax, tensor_quant_scale(memory, cast), memory.table, cast)
    row, column = row - row_tile * geometry.tile_rows, column - column_tile * geometry.tile_columns
    place = row * geometry.tile_columns + column
    place += tile * geometry.padded_tile
    tl.store(terms[0] + place, first, mask=inside)
    tl.store(terms[0] + place + terms[1], second, mask=inside)
