"""Casts as launches: the matrix is cut, and kernels follow one another on the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._contract import Draw, SignKey, sign_key
from .._parameters import CastParameters
from .._shapes import rounded_shape, tile_counts
from ._cuts import cast_cut, tensor_cut
from ._geometry import Geometry
from ._launch import CastMemory, Launch, Launcher, Shape
from ._plan import NO_TRANSFORM, CastPlan, CastUse, Hadamard, plan_of
from ._table import table_on
from .device._amax_kernel import amax_kernel
from .device._cast_kernel import cast_kernel
from .device._hadamard_kernel import hadamard_kernel
from .device._terms_kernel import terms_kernel

_NO_SIGNS = SignKey(0, 0)


@dataclass(frozen=True, kw_only=True)
class Transformation:
    """A matrix and the transform that its kernels give it.

    Attributes:
        x: the matrix.
        hadamard: the transform, or none.
        signs: key of its sign vector.
        shape: of the result.
        launch: what runs kernels.
    """

    x: Tensor
    hadamard: Hadamard
    signs: SignKey
    shape: tuple[int, int]
    launch: Launcher

    def run(self, kernel: object, cut: Geometry, **arguments: object) -> None:
        """Launch a kernel over the matrix under a cut."""
        rows, columns = self.x.shape
        shape = Shape(rows, columns, self.x.stride(0), self.x.stride(1), *self.shape)
        self.launch(
            Launch(
                kernel=kernel,
                arguments={"shape": shape, **arguments},
                programs=cut.programs(*self.shape),
                warps=cut.warps,
                device=self.x.device,
            )
        )

    def constants(self, cut: Geometry) -> dict[str, object]:
        """What kernels that transform take for it."""
        return {
            "sign_seed": self.signs.seed,
            "sign_offset": self.signs.offset,
            "geometry": cut,
            "hadamard": self.hadamard,
        }

    def write(self, result: Tensor) -> Tensor:
        """The transform itself, into ``result``."""
        geometry = tensor_cut(self.shape, self.hadamard.size, self.hadamard.axis)
        self.run(hadamard_kernel, geometry, x=self.x, result=result, **self.constants(geometry))
        return result

    def done(self) -> Transformation:
        """The transform of the matrix as a matrix without transform."""
        result = self.write(torch.empty(self.shape, dtype=torch.float32, device=self.x.device))
        return replace(self, x=result, hadamard=NO_TRANSFORM)

    def largest_bits(self, geometry: Geometry, tiles: int) -> Tensor:
        """Bits (int32) of the largest magnitude of each tile of the result."""
        amax = torch.zeros(max(tiles, 1), dtype=torch.int32, device=self.x.device)
        self.run(amax_kernel, geometry, x=self.x, amax=amax, **self.constants(geometry))
        return amax

    def largest_of_all(self) -> Tensor:
        """Bits (int32 ``[1]``) of the largest magnitude of the result."""
        return self.largest_bits(tensor_cut(self.shape, self.hadamard.size, self.hadamard.axis), 1)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Where a cast's results go.

    Attributes:
        elements: the carrier (fp32), or codes, one per element (uint8 or int32).
        scales: codes of the block scales; of other casts not written.
        outer: the outer scale; None: left out.
    """

    elements: Tensor
    scales: Tensor | None
    outer: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Casting:
    """A matrix on its way through a cast.

    Attributes:
        matrix: transformed already, if the cast's kernel cannot do it.
        parameters: of the cast.
        axis: that the reduction runs along.
        draw: the random bits.
    """

    matrix: Transformation
    parameters: CastParameters
    axis: int
    draw: Draw

    def into(self, results: Results, given: Tensor | None = None) -> Tensor | None:
        """Write the results.

        Args:
            results: where they go.
            given: an amax to be used instead of the matrix's own, unless it is 0.

        Returns:
            Bits of the largest magnitude of each tile, if they had to be found first.
        """
        parameters, matrix = self.parameters, self.matrix
        geometry = cast_cut(parameters, matrix.shape, self.axis)
        use = CastUse(
            coded=results.elements.dtype != torch.float32,
            with_outer=results.outer is not None,
            delayed=given is not None,
            columns=matrix.shape[1],
        )
        plan = plan_of(parameters, geometry, matrix.hadamard, use)
        amax = above = None
        if not plan.own_tiles and plan.scale != "none" and plan.rule != "quest":
            amax = matrix.largest_bits(geometry, self._tiles())
        if parameters.two_level:
            above = matrix.largest_of_all()
        elif given is not None:
            above = given.view(torch.int32)
        table = table_on(matrix.x.device, parameters.grid, parameters.rounding) if parameters.grid.table else None
        memory = CastMemory(matrix.x, results.elements, results.scales, results.outer, amax, above, table)
        if plan.summed and not plan.own_tiles:
            memory = memory._replace(sums=self._sums(memory, plan))
        matrix.run(
            cast_kernel,
            geometry,
            memory=memory,
            seed=self.draw.seed,
            offset=self.draw.offset,
            sign_seed=matrix.signs.seed,
            sign_offset=matrix.signs.offset,
            cast=plan,
        )
        return amax

    def _tiles(self) -> int:
        """How many tiles there are."""
        if self.parameters.scaling == "row":
            return self.matrix.shape[1 - self.axis]
        if self.parameters.scaling == "block":
            return math.prod(tile_counts(self.matrix.shape, self.parameters, self.axis))
        return 1

    def _sums(self, memory: CastMemory, plan: CastPlan) -> tuple[Tensor, Tensor]:
        """Both sums of each tile, of tiles too large for a program: their terms are laid out, and added by halving."""
        tiles = self._tiles()
        terms = torch.zeros(2, tiles, plan.geometry.padded_tile, dtype=torch.float64, device=memory.x.device)
        address = (terms, terms[0].numel())
        self.matrix.run(
            terms_kernel,
            plan.geometry,
            memory=memory,
            terms=address,
            seed=self.draw.seed,
            offset=self.draw.offset,
            cast=plan,
        )
        while terms.shape[2] > 1:
            half = terms.shape[2] // 2
            terms = terms[..., :half] + terms[..., half:]
        return terms[0].contiguous(), terms[1].contiguous()


def casting_of(x: Tensor, parameters: CastParameters, axis: int, draw: Draw, launch: Launcher) -> Casting:
    """A matrix before its cast."""
    key = sign_key(parameters, draw)
    hadamard = Hadamard(size=parameters.transform, axis=axis, signs=key is not None)
    matrix = Transformation(
        x=x,
        hadamard=hadamard if parameters.transform else NO_TRANSFORM,
        signs=key or _NO_SIGNS,
        shape=rounded_shape(x.shape, parameters.transform, axis),
        launch=launch,
    )
    if parameters.transform:
        if not cast_cut(parameters, matrix.shape, axis).transforms(parameters.transform, axis):
            matrix = matrix.done()
    elif parameters.scaling in ("none", "tensor") and x.is_contiguous():
        matrix = replace(matrix, x=x.reshape(1, -1), shape=(1, x.numel()))
    return Casting(matrix=matrix, parameters=parameters, axis=axis, draw=draw)
