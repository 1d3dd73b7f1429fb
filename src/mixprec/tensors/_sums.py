"""Sums whose order is fixed, so that every device and thread count gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 1024


def tree_sum(values: Tensor) -> Tensor:
    """Sum of all elements in fp64, 0-d.

    Chunks of 1024 elements (the last padded with zeros) are halved by adding the second half to the first until
    one number is left of each; the numbers of the chunks are summed in the same way.

    Example:
        >>> tree_sum(torch.ones(3000)).item()
        3000.0
    """
    sums = values.reshape(-1).double()
    while True:
        chunks = torch.nn.functional.pad(sums, (0, -sums.numel() % _CHUNK)).reshape(-1, _CHUNK)
        while chunks.shape[1] > 1:
            half = chunks.shape[1] // 2
            chunks = chunks[:, :half] + chunks[:, half:]
        sums = chunks[:, 0]
        if sums.numel() <= 1:
            return sums[0] if sums.numel() else values.new_zeros((), dtype=torch.float64)
