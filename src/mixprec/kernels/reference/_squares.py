"""Sums of squares in the order that every backend keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from ._sums import sum_by_halving

_CHUNK = 1024


def sum_of_squares(values: Tensor) -> Tensor:
    """fp64, 0-d: of the widened elements in C order, in chunks of 1,024, each and then their results by halving.

    Example:
        >>> sum_of_squares(torch.tensor([3.0, 4.0])).item()
        25.0
    """
    wide = values.detach().double()
    return sum_by_chunks(wide * wide)


def sum_by_chunks(values: Tensor) -> Tensor:
    """fp64, 0-d: of fp64 values in C order, in chunks of 1,024, each and then their results by halving; 0 of none.

    Example:
        >>> sum_by_chunks(torch.ones(3000, dtype=torch.float64)).item()
        3000.0
    """
    if not values.numel():
        return values.new_zeros(())
    flat = values.reshape(-1)
    chunks = torch.nn.functional.pad(flat, (0, -flat.numel() % _CHUNK)).reshape(-1, _CHUNK)
    return sum_by_halving(sum_by_halving(chunks))
