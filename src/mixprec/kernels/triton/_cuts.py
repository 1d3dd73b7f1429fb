"""The cuts of matrices: as few kinds as will do, for each is a compilation of its own."""

from __future__ import annotations

from .._parameters import CastParameters
from ._geometry import WHOLE, Geometry, power_of_two_from

PROGRAM = 4096  # elements that a program holds if nothing asks for more
LARGEST_UNIT = 16384  # a tile of 128 x 128 in one piece
LARGEST_SUM = 4096  # the same where fp64 sums are taken of it
LONGEST_ROW = 8192  # of a row that is held in one piece
LONGEST_COLUMN = 256
LINE = 32  # neighbouring elements that are read at once


def tensor_cut(shape: tuple[int, int], transform: int, axis: int) -> Geometry:
    """A cut where nothing is shared, or one scale by all.

    Example:
        >>> cut = tensor_cut((1, 5000), 0, 1)
        >>> cut.elements, cut.programs(1, 5000)
        (4096, 2)
    """
    if transform and axis == 0:
        return _by_columns(transform, shape[1], tile_rows=WHOLE, tile_columns=WHOLE, unit_is_tile=False)
    width = min(max(power_of_two_from(shape[1]), transform), PROGRAM)
    return Geometry(
        tile_rows=WHOLE,
        tile_columns=WHOLE,
        unit_rows=1,
        unit_columns=width,
        row_units=min(PROGRAM // width, power_of_two_from(shape[0])),
        column_units=1,
        unit_is_tile=False,
    )


def cast_cut(parameters: CastParameters, shape: tuple[int, int], axis: int) -> Geometry:
    """The cut for a cast of a (padded) matrix of that shape."""
    if parameters.scaling == "row":
        return _row_cut(shape, parameters.transform, axis)
    if parameters.scaling == "block":
        return _block_cut(parameters, shape, axis)
    return tensor_cut(shape, parameters.transform, axis)


def _row_cut(shape: tuple[int, int], transform: int, axis: int) -> Geometry:
    length = max(power_of_two_from(shape[axis]), transform)
    if axis == 0:
        whole = length <= LONGEST_COLUMN
        height = length if whole else LONGEST_COLUMN // 2
        return _by_columns(height, shape[1], tile_rows=WHOLE, tile_columns=1, unit_is_tile=whole)
    whole = length <= LONGEST_ROW
    width = length if whole else PROGRAM
    return Geometry(
        tile_rows=1,
        tile_columns=WHOLE,
        unit_rows=1,
        unit_columns=width,
        row_units=min(max(PROGRAM // width, 1), power_of_two_from(shape[0])),
        column_units=1,
        unit_is_tile=whole,
    )


def _by_columns(height: int, columns: int, *, tile_rows: int, tile_columns: int, unit_is_tile: bool) -> Geometry:
    """Units of one column each, and so many beside one another that a warp reads neighbours."""
    return Geometry(
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        unit_rows=height,
        unit_columns=1,
        row_units=1,
        column_units=min(max(PROGRAM // height, LINE), power_of_two_from(columns)),
        unit_is_tile=unit_is_tile,
    )


def _block_cut(parameters: CastParameters, shape: tuple[int, int], axis: int) -> Geometry:
    tile, transform = parameters.matrix_tile(axis), parameters.transform
    rows, columns = tile
    summed = parameters.rule == "quest" or parameters.second_target > 0.0
    size = power_of_two_from(rows * columns)
    if size > (LARGEST_SUM if summed else LARGEST_UNIT):
        return _large_block_cut(tile)
    needed = [max(transform // rows, 1) if axis == 0 else 1, max(transform // columns, 1) if axis == 1 else 1]
    # First as many units beside one another as give a line, or fill the program; then below one another.
    room = max(PROGRAM // size, 1)
    beside = max(needed[1], min(room // needed[0], power_of_two_from(-(-shape[1] // columns))), 1)
    below = max(needed[0], min(room // beside, power_of_two_from(-(-shape[0] // rows))), 1)
    return Geometry(
        tile_rows=rows,
        tile_columns=columns,
        unit_rows=rows,
        unit_columns=columns,
        row_units=below,
        column_units=beside,
        unit_is_tile=True,
    )


def _large_block_cut(tile: tuple[int, int]) -> Geometry:
    width = min(power_of_two_from(tile[1]), PROGRAM)
    return Geometry(
        tile_rows=tile[0],
        tile_columns=tile[1],
        unit_rows=min(PROGRAM // width, power_of_two_from(tile[0])),
        unit_columns=width,
        row_units=1,
        column_units=1,
        unit_is_tile=False,
    )
