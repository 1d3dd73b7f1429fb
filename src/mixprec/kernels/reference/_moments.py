"""How a moment's fp32 values are kept in its tensors, and read from them."""

from __future__ import annotations

import torch
from torch import Tensor

from .._optimizer_contract import StoredMoment
from ._moment_codes import decode, encode
from ._sixteen_bits import nearest_16_bits


def load_moment(stored: StoredMoment) -> Tensor:
    """The fp32 values of a moment, fresh.

    Example:
        >>> load_moment(StoredMoment("bf16", torch.ones(2, dtype=torch.bfloat16))).tolist()
        [1.0, 1.0]
    """
    if stored.kind == "fp32" or stored.kind == "bf16":
        return stored.values.to(torch.float32, copy=True)
    return decode(stored.values, _scales(stored), stored.powers, stored.block, stored.kind, stored.is_signed)


def store_moment(stored: StoredMoment, value: Tensor) -> None:
    """Keep fp32 values.

    Example:
        >>> kept = StoredMoment("bf16", torch.zeros(1, dtype=torch.bfloat16))
        >>> store_moment(kept, torch.tensor([0.1]))
        >>> kept.values.item()
        0.10009765625
    """
    if stored.kind == "fp32":
        stored.values.copy_(value)
    elif stored.kind == "bf16":
        stored.values.copy_(nearest_16_bits(value, torch.bfloat16))
    else:
        codes, scales, powers = encode(value.reshape(-1), stored.block, stored.kind, stored.expand, stored.is_signed)
        stored.values.copy_(codes)
        _scales(stored).copy_(scales)
        if powers is not None and stored.powers is not None:
            stored.powers.copy_(powers)


def _scales(stored: StoredMoment) -> Tensor:
    if stored.scales is None:
        raise ValueError(f"a moment kept as {stored.kind!r} has `scales`; got none")
    return stored.scales
