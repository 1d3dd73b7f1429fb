"""How a moment's fp32 values are kept in its tensors, and read from them."""

from __future__ import annotations

import torch
from torch import Tensor

from .._optimizer_contract import StoredMoment
from ._sixteen_bits import nearest_16_bits


def load_moment(stored: StoredMoment) -> Tensor:
    """The fp32 values of a moment, fresh.

    Example:
        >>> load_moment(StoredMoment("bf16", torch.ones(2, dtype=torch.bfloat16))).tolist()
        [1.0, 1.0]
    """
    return stored.values.to(torch.float32, copy=True)


def store_moment(stored: StoredMoment, value: Tensor) -> None:
    """Keep fp32 values.

    Example:
        >>> kept = StoredMoment("bf16", torch.zeros(1, dtype=torch.bfloat16))
        >>> store_moment(kept, torch.tensor([0.1]))
        >>> kept.values.item()
        0.10009765625
    """
    stored.values.copy_(value if stored.kind == "fp32" else nearest_16_bits(value, torch.bfloat16))
