"""The kernel that finds the largest magnitudes of tiles."""

import triton
import triton.language as tl

from ._bits import magnitude_bits
from ._tiles import program_units, read_transformed, tile_in_axis


@triton.jit(do_not_specialize=["sign_seed", "sign_offset"])
def amax_kernel(
    x, amax, shape, sign_seed: tl.int64, sign_offset: tl.int64, geometry: tl.constexpr, hadamard: tl.constexpr
):
    """Raise ``amax`` (int32 bits, one per tile, zeros before) to the largest magnitude of each tile."""
    units = program_units(shape.padded_columns, geometry)
    values, _, _, inside = read_transformed(x, units, shape, (sign_seed, sign_offset), geometry, hadamard)
    bits = tl.max(tl.where(inside, magnitude_bits(values), 0), axis=2, keep_dims=True)
    row_tile, _, _ = tile_in_axis(units[0], shape.padded_rows, geometry.tile_rows, geometry.unit_rows)
    column_tile, tiles, _ = tile_in_axis(units[1], shape.padded_columns, geometry.tile_columns, geometry.unit_columns)
    # Units of one tile in a program are put together first: fewer writes to one place.
    if geometry.tile_rows == 0:
        bits, row_tile = tl.max(bits, axis=0, keep_dims=True), tl.min(row_tile, axis=0, keep_dims=True)
    if geometry.tile_columns == 0:
        bits, column_tile = tl.max(bits, axis=1, keep_dims=True), tl.min(column_tile, axis=1, keep_dims=True)
    # A maximum of integers has no order; a unit beyond the edge holds 0, which raises nothing.
    tl.atomic_max(amax + (row_tile * tiles + column_tile), bits, mask=bits > 0, sem="relaxed")
