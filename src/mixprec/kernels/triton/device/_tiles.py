"""Where the elements of a program lie, and reading them."""

import triton
import triton.language as tl

from ._bits import widen
from ._hadamard import transform
from ._philox import random_word, words_of_lines


@triton.jit
def program_units(columns, geometry: tl.constexpr):
    """Places (int64) of this program's units along the rows' axis, ``[NR, 1, 1]``, and the columns', ``[1, NC, 1]``."""
    first_row, first_column = _first_units(columns, geometry)
    row_unit = first_row + tl.arange(0, geometry.row_units)[:, None, None]
    column_unit = first_column + tl.arange(0, geometry.column_units)[None, :, None]
    return row_unit, column_unit


@triton.jit
def _first_units(columns, geometry: tl.constexpr):
    """Places (int64) of this program's first unit along both axes."""
    across = tl.maximum(_axis_units(columns, geometry.tile_columns, geometry.unit_columns), 1)
    across = (across + (geometry.column_units - 1)) // geometry.column_units
    program = tl.program_id(0).to(tl.int64)
    return program // across * geometry.row_units, program % across * geometry.column_units


@triton.jit
def _axis_units(length, tile: tl.constexpr, unit: tl.constexpr):
    """How many units an axis is cut into."""
    if tile == 0:
        units = (length + (unit - 1)) // unit
    else:
        units = (length + (tile - 1)) // tile * ((tile + unit - 1) // unit)
    return units


@triton.jit
def place_in_axis(unit, inner, length, tile: tl.constexpr, extent: tl.constexpr):
    """``(place, inside)`` of element ``inner`` of units along an axis; a unit ends where its tile does."""
    if tile == 0:
        place = unit * extent + inner
        inside = place < length
    else:
        parts: tl.constexpr = (tile + extent - 1) // extent
        within = unit % parts * extent + inner
        place = unit // parts * tile + within
        inside = (place < length) & (within < tile)
    return place, inside


@triton.jit
def tile_in_axis(unit, length, tile: tl.constexpr, extent: tl.constexpr):
    """``(tile, tiles, first)`` of units along an axis: their tile, how many there are, whether they are its first."""
    if tile == 0:
        number = unit * 0
        tiles = 1
        first = unit == 0
    else:
        parts: tl.constexpr = (tile + extent - 1) // extent
        number = unit // parts
        tiles = (length + (tile - 1)) // tile
        first = (unit % parts == 0) & (number < tiles)
    return number, tiles, first


@triton.jit
def elements_of_tile(row_tile, column_tile, shape, geometry: tl.constexpr):
    """How many elements (fp64) tiles of blocks have: fewer at the edges."""
    rows = tl.minimum(shape.padded_rows - row_tile * geometry.tile_rows, geometry.tile_rows)
    columns = tl.minimum(shape.padded_columns - column_tile * geometry.tile_columns, geometry.tile_columns)
    return (tl.maximum(rows, 1) * tl.maximum(columns, 1)).to(tl.float64)


@triton.jit
def read_block(x, units, shape, geometry: tl.constexpr):
    """``(values, row, column, inside)`` of a program: fp32 ``[NR, NC, P]``, zero outside of the matrix.

    Args:
        x: address of the matrix.
        units: from `program_units`.
        shape: `mixprec.kernels.triton._launch.Shape`; inside is what lies in the padded matrix.
        geometry: the cut.
    """
    element = tl.arange(0, geometry.unit_size)[None, None, :]
    row, row_inside = place_in_axis(
        units[0], element // geometry.unit_columns, shape.padded_rows, geometry.tile_rows, geometry.unit_rows
    )
    column, column_inside = place_in_axis(
        units[1], element % geometry.unit_columns, shape.padded_columns, geometry.tile_columns, geometry.unit_columns
    )
    inside = row_inside & column_inside & (element < geometry.unit_rows * geometry.unit_columns)
    there = inside & (row < shape.rows) & (column < shape.columns)
    values = tl.load(x + row * shape.row_stride + column * shape.column_stride, mask=there, other=0.0)
    return widen(values), row, column, inside


@triton.jit
def read_transformed(x, units, shape, signs, geometry: tl.constexpr, hadamard: tl.constexpr):
    """As `read_block`, after a transform if there is one; ``signs``: key and offset of its sign vector."""
    values, row, column, inside = read_block(x, units, shape, geometry)
    if hadamard.size > 0:
        values = transform(values, signs[0], signs[1], geometry, hadamard)
    return values, row, column, inside


@triton.jit
def read_words(index, shape, draw, cast: tl.constexpr):
    """The random words (uint32) of a program's elements; ``draw``: seed and offset."""
    geometry: tl.constexpr = cast.geometry
    if cast.words_by_line:
        rows: tl.constexpr = geometry.unit_rows
        columns: tl.constexpr = geometry.unit_columns
        row_units: tl.constexpr = geometry.row_units
        column_units: tl.constexpr = geometry.column_units
        lines: tl.constexpr = column_units * columns // 32
        first_row, first_column = _first_units(shape.padded_columns, geometry)
        row = (first_row + tl.arange(0, row_units)[:, None, None]) * rows + tl.arange(0, rows)[None, :, None]
        line = first_column * columns // 32 + tl.arange(0, lines)[None, None, :]
        words = words_of_lines(row * (shape.padded_columns // 32) + line, draw[0], draw[1])
        words = tl.permute(tl.reshape(words, (row_units, rows, column_units, columns)), (0, 2, 1, 3))
        words = tl.reshape(words, (row_units, column_units, rows * columns))
    else:
        words = random_word(index, draw[0], draw[1])
    return words
