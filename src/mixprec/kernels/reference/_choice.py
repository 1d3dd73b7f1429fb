"""The choice between two scales of a tile, by the squared error that each leaves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ._scales import Scales
from ._sums import sum_by_halving
from ._tiles import spread, tiles_of


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Elements under scales that might be taken.

    Attributes:
        elements: fp32 ``[R, C]``.
        scales: of the tiles.
        compared: fp32, one per tile: ``elements * compared`` is what the matrix is compared with.
    """

    elements: Tensor
    scales: Scales
    compared: Tensor


def choose(x: Tensor, first: Candidate, second: Candidate, tile: tuple[int, int]) -> tuple[Tensor, Scales]:
    """For each tile the candidate with the smaller error; the first where both are equal, or no numbers.

    Args:
        x: fp64 ``[R, C]``.
        first: one candidate.
        second: the other.
        tile: rows and columns of a tile.

    Returns:
        Elements and scales of the better candidate of each tile.
    """
    second_is_better = _squared_error(x, second, tile) < _squared_error(x, first, tile)

    def taken(mine: Tensor, others: Tensor) -> Tensor:
        """Numbers of the tiles; what is one for the tensor is the same for both."""
        return mine if mine.ndim == 0 else torch.where(second_is_better, others, mine)

    elements = torch.where(spread(second_is_better, tile, x.shape), second.elements, first.elements)
    mine, others = first.scales, second.scales
    return elements, Scales(
        quant_scale=taken(mine.quant_scale, others.quant_scale),
        scale=taken(mine.scale, others.scale),
        outer=taken(mine.outer, others.outer),
    )


def _squared_error(x: Tensor, candidate: Candidate, tile: tuple[int, int]) -> Tensor:
    """fp64, one per tile."""
    values = candidate.elements.double() * spread(candidate.compared, tile, x.shape).double()
    difference = values - x
    return sum_by_halving(tiles_of(difference * difference, tile))
