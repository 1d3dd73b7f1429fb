"""How a matrix is cut up for the device: into tiles, these into units, and so many units to a program."""

from __future__ import annotations

import math
from dataclasses import dataclass

WHOLE = 0  # a tile as long as its axis


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A cut of a matrix ``[R, C]``; a compile-time constant of the kernels.

    A tile is what shares a scale. It is cut into units of ``unit_rows`` x ``unit_columns`` elements, smaller ones at
    its edges. A unit's elements lie row by row, padded to ``unit_size``; a program holds ``row_units`` x
    ``column_units`` units.

    Attributes:
        tile_rows: rows of a tile, or `WHOLE`.
        tile_columns: columns of a tile, or `WHOLE`.
        unit_rows: rows of a unit.
        unit_columns: columns of a unit.
        row_units: units of a program along the rows' axis, a power of two.
        column_units: likewise along the columns' axis.
        unit_is_tile: whether every tile is one unit, so that its largest magnitude is found where it is used.
    """

    tile_rows: int
    tile_columns: int
    unit_rows: int
    unit_columns: int
    row_units: int
    column_units: int
    unit_is_tile: bool

    @property
    def unit_size(self) -> int:
        """Elements of a unit with its padding: a power of two."""
        return power_of_two_from(self.unit_rows * self.unit_columns)

    @property
    def unit_levels(self) -> int:
        """Halvings that leave one element of a unit."""
        return self.unit_size.bit_length() - 1

    @property
    def padded_tile(self) -> int:
        """Places of a tile of blocks in sums by halving."""
        return power_of_two_from(self.tile_rows * self.tile_columns)

    @property
    def elements(self) -> int:
        """Elements that a program holds."""
        return self.row_units * self.column_units * self.unit_size

    @property
    def warps(self) -> int:
        """Warps of a program: about 16 elements a thread."""
        return min(max(self.elements // 512, 1), 16)

    def programs(self, rows: int, columns: int) -> int:
        """How many programs a matrix takes; at least one, which writes what does not depend on elements."""
        down = math.ceil(_units(rows, self.tile_rows, self.unit_rows) / self.row_units)
        across = math.ceil(_units(columns, self.tile_columns, self.unit_columns) / self.column_units)
        return max(down, 1) * max(across, 1)

    def has_lines(self, columns: int) -> bool:
        """Whether a program holds rows of 32 elements that follow one another in C order, from multiples of 32 on."""
        without_gaps = self.tile_rows in (WHOLE, self.unit_rows) and self.tile_columns in (WHOLE, self.unit_columns)
        whole_lines = columns % 32 == 0 and self.column_units * self.unit_columns % 32 == 0
        powers_of_two = power_of_two_from(self.unit_rows) == self.unit_rows and self.unit_size % self.unit_columns == 0
        return without_gaps and whole_lines and powers_of_two and self.unit_size == self.unit_rows * self.unit_columns

    def transforms(self, size: int, axis: int) -> bool:
        """Whether the groups of a transform lie whole in programs, without gaps between units."""
        tile, unit, units = (
            (self.tile_rows, self.unit_rows, self.row_units)
            if axis == 0
            else (self.tile_columns, self.unit_columns, self.column_units)
        )
        without_gaps = self.unit_size == self.unit_rows * self.unit_columns and tile in (WHOLE, unit)
        return without_gaps and unit * units % size == 0


def power_of_two_from(count: int) -> int:
    """The smallest power of two that is not below.

    Example:
        >>> power_of_two_from(5), power_of_two_from(8), power_of_two_from(0)
        (8, 8, 1)
    """
    return 1 << max(count - 1, 0).bit_length()


def _units(length: int, tile: int, unit: int) -> int:
    if tile == WHOLE:
        return math.ceil(length / unit)
    return math.ceil(length / tile) * math.ceil(tile / unit)
