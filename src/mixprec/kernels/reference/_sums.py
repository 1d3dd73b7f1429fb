"""Sums in a fixed order."""

from __future__ import annotations

import torch
from torch import Tensor


def sum_by_halving(values: Tensor) -> Tensor:
    """Sums along the last axis, padded with zeros to a power of two, by adding the second half to the first.

    Example:
        >>> sum_by_halving(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
        [6.0]
    """
    size = 1 << (values.shape[-1] - 1).bit_length()
    values = torch.nn.functional.pad(values, (0, size - values.shape[-1]))
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[..., :half] + values[..., half:]
    return values[..., 0]
