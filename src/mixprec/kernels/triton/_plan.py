"""What a kernel is compiled for: a cast, its grids and its cut, as compile-time constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from .._parameters import QUEST_REACH, CastParameters, ScaleKind
from ._geometry import Geometry
from ._grid import Grid, grid_of


@dataclass(frozen=True, kw_only=True)
class Hadamard:
    """A transform, as a constant.

    Attributes:
        size: elements of a group; 0: no transform.
        axis: that the groups lie along.
        signs: whether there is a sign vector.
        inverse: whether the signs come last.
    """

    size: int = 0
    axis: int = 1
    signs: bool = False
    inverse: bool = False

    @property
    def levels(self) -> int:
        """Steps of butterflies."""
        return self.size.bit_length() - 1

    @property
    def normaliser(self) -> float:
        """What makes the transform orthonormal."""
        return 1.0 / math.sqrt(self.size)


NO_TRANSFORM = Hadamard()


@dataclass(frozen=True, kw_only=True)
class CastPlan:
    """A cast, as a constant.

    Attributes as in `CastParameters`, and these.

    Attributes:
        grid: where the elements go.
        scale_grid: the format of float scales; of other scales any grid, which is not read.
        blocks: whether tiles are blocks, of which a power-of-two scale belongs to the carrier.
        above_target: what the tensor's amax is scaled to under a tensor scale; otherwise 0.
        delayed: whether the tensor's amax is given, if it is not 0.
        own_tiles: whether each unit is a tile, of which the kernel finds itself what its scale comes from; otherwise it
            reads that.
        words_by_line: whether random words are made for 32 elements in a row at once.
        coded: whether the elements' codes are written, and not the carrier.
        outer: what the outer scale is written for, if it is: every tile, or the tensor.
        geometry: the cut of the matrix.
        hadamard: the transform.
    """

    grid: Grid
    rounding: Literal["nearest-even", "stochastic", "toward-zero"]
    scale: ScaleKind
    rule: str
    prescale: float
    target: float
    second_target: float
    scale_grid: Grid
    blocks: bool
    above_target: float
    delayed: bool
    own_tiles: bool
    words_by_line: bool
    coded: bool
    outer: Literal["none", "tiles", "tensor"]
    geometry: Geometry
    hadamard: Hadamard

    @property
    def coded_scales(self) -> bool:
        """Whether block scales have codes."""
        return self.blocks and self.scale != "fp32"

    @property
    def summed(self) -> bool:
        """Whether scales come from sums over their tiles."""
        return self.rule == "quest" or self.second_target > 0.0

    @property
    def quest_reach(self) -> float:
        """Deviations that the rule quest reaches to."""
        return QUEST_REACH


@dataclass(frozen=True, kw_only=True)
class CastUse:
    """How a cast is used.

    Attributes:
        coded: whether the elements' codes are wanted.
        with_outer: whether the outer scale is wanted.
        delayed: whether an amax is given.
        columns: of the matrix that is rounded.
    """

    coded: bool
    with_outer: bool
    delayed: bool
    columns: int


@lru_cache(maxsize=4096)
def plan_of(parameters: CastParameters, geometry: Geometry, hadamard: Hadamard, use: CastUse) -> CastPlan:
    """The constants of a cast under a cut."""
    grid = grid_of(parameters.grid)
    blocks = parameters.scaling == "block"
    of_tiles = parameters.scale == "fp32" or (parameters.scale == "power" and not blocks)
    return CastPlan(
        grid=grid,
        rounding=parameters.rounding,
        scale=parameters.scale,
        rule=parameters.rule,
        prescale=parameters.prescale,
        target=parameters.target,
        second_target=parameters.second_target,
        scale_grid=grid_of(parameters.scale_grid) if parameters.scale_grid else grid,
        blocks=blocks,
        above_target=parameters.target * parameters.scale_limit,
        delayed=use.delayed,
        own_tiles=geometry.unit_is_tile,
        words_by_line=parameters.stochastic and geometry.has_lines(use.columns),
        coded=use.coded,
        outer="none" if not use.with_outer else "tiles" if of_tiles else "tensor",
        geometry=geometry,
        hadamard=hadamard,
    )


@lru_cache(maxsize=1024)
def without_scale(parameters: CastParameters) -> CastParameters:
    """The cast of every element on its own."""
    return replace(
        parameters,
        scaling="none",
        scale="none",
        scale_grid=None,
        scale_limit=0.0,
        second_target=0.0,
        transform=0,
        signs="none",
    )


@dataclass(frozen=True, kw_only=True)
class PackPlan:
    """The packing of codes, as a constant.

    Attributes:
        bits: of a code.
        block: bytes that a program writes.
    """

    bits: int
    block: int = 1024

    @property
    def mask(self) -> int:
        """A code's bits."""
        return (1 << self.bits) - 1

    @property
    def codes_of_a_byte(self) -> int:
        """Codes that a byte may hold something of."""
        return math.ceil((8 + self.bits - math.gcd(self.bits, 8)) / self.bits)


@dataclass(frozen=True, kw_only=True)
class DecodePlan:
    """The reading of packed codes, as a constant.

    Attributes:
        grid: of the elements.
        scale: of the cast.
        scale_grid: of float block scales.
        coded_scales: whether there are block scales.
        outer: what the outer scale is shared by; ``"none"``: it is left out.
        tile_rows: rows of a tile.
        tile_columns: columns of a tile.
        block: elements that a program writes.
    """

    grid: Grid
    scale: ScaleKind
    scale_grid: Grid
    coded_scales: bool
    outer: Literal["none", "tensor", "rows", "columns", "tiles"]
    tile_rows: int
    tile_columns: int
    block: int = 1024

    @property
    def bits(self) -> int:
        """Of a code."""
        return self.grid.bits

    @property
    def mask(self) -> int:
        """A code's bits."""
        return (1 << self.bits) - 1

    @property
    def bytes_of_a_code(self) -> int:
        """Bytes that may hold something of a code."""
        return math.ceil((self.bits + 8 - math.gcd(self.bits, 8)) / 8)


@lru_cache(maxsize=1024)
def decode_plan(parameters: CastParameters, axis: int, *, outer: bool) -> DecodePlan:
    """The constants of reading a cast's codes, with or without the outer scale."""
    blocks = parameters.scaling == "block"
    rows, columns = parameters.matrix_tile(axis) if blocks else (1, 1)
    grid = grid_of(parameters.grid)
    shared: Literal["tensor", "rows", "columns", "tiles"] = "tensor"
    if parameters.scaling == "row":
        shared = "rows" if axis == 1 else "columns"
    elif blocks and parameters.scale == "fp32":
        shared = "tiles"
    return DecodePlan(
        grid=grid,
        scale=parameters.scale,
        scale_grid=grid_of(parameters.scale_grid) if parameters.scale_grid else grid,
        coded_scales=blocks and parameters.scale != "fp32",
        outer=shared if outer else "none",
        tile_rows=rows,
        tile_columns=columns,
    )


@dataclass(frozen=True, kw_only=True)
class ProductPlan:
    """A product with a narrow accumulator, as a constant: that of `Sums`, and the block that a program computes."""

    mantissa_bits: int
    rounding: Literal["nearest-even", "toward-zero"]
    promote_every: int
    rows: int = 16
    columns: int = 64
