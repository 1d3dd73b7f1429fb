"""A matrix as tiles that share a scale."""

from __future__ import annotations

import torch
from torch import Tensor


def tiles_of(x: Tensor, tile: tuple[int, int]) -> Tensor:
    """``[R, C]`` as ``[row tiles, column tiles, elements]``: each tile row by row, zeros where the matrix has ended.

    Example:
        >>> tiles_of(torch.tensor([[1, 2, 3], [4, 5, 6]]), (2, 2)).tolist()
        [[[1, 2, 4, 5], [3, 0, 6, 0]]]
    """
    height, width = tile
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % width, 0, -x.shape[0] % height))
    rows, columns = padded.shape[0] // height, padded.shape[1] // width
    return padded.reshape(rows, height, columns, width).transpose(1, 2).reshape(rows, columns, height * width)


def spread(values: Tensor, tile: tuple[int, int], shape: torch.Size) -> Tensor:
    """One value per tile -> one per element of a matrix of that shape; what is 0-d stays.

    Example:
        >>> spread(torch.tensor([[1, 2]]), (2, 2), torch.Size((2, 3))).tolist()
        [[1, 1, 2], [1, 1, 2]]
    """
    if values.ndim == 0:
        return values
    rows, columns = shape
    return values.repeat_interleave(tile[0], 0).repeat_interleave(tile[1], 1)[:rows, :columns]
