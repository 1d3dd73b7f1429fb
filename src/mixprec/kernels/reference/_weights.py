"""How a weight's fp32 value is kept in its tensors, and read from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from mixprec.specs import parse_cast

from .._contract import Draw
from .._optimizer_contract import StoredWeight, WeightKind
from .._parameters import ElementParameters, cast_parameters
from ._grid import round_to_grid
from ._philox import element_words
from ._sixteen_bits import exact_bf16, nearest_16_bits, nearest_away_bf16


def load_weight(stored: StoredWeight) -> Tensor:
    """The fp32 value of a weight, fresh, of its shape.

    Example:
        >>> weight, remainder = torch.ones(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.int16)
        >>> load_weight(StoredWeight("split", weight, remainder)).item() == 1 + 2**-23
        True
    """
    return _LOADS[stored.kind](stored)


def store_weight(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    """Keep an fp32 value of the weight's shape.

    Example:
        >>> kept = StoredWeight("master", torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1))
        >>> store_weight(kept, torch.tensor([0.1]), Draw())
        >>> kept.weight.item(), kept.extra == torch.tensor([0.1])
        (0.10009765625, tensor([True]))
    """
    _STORES[stored.kind](stored, value, draw)


def _extra(stored: StoredWeight) -> Tensor:
    if stored.extra is None:
        raise ValueError(f"a weight kept as {stored.kind!r} has a second tensor, `extra`; got none")
    return stored.extra


def _load_plain(stored: StoredWeight) -> Tensor:
    return stored.weight.detach().to(torch.float32, copy=True)


def _load_master(stored: StoredWeight) -> Tensor:
    return _extra(stored).clone()


def _load_split(stored: StoredWeight) -> Tensor:
    upper = stored.weight.detach().view(torch.int16).int() << 16
    value = (upper + _extra(stored).int()).view(torch.float32)
    return torch.where(value.isnan(), upper.view(torch.float32), value)  # a pair that no storing gives


def _load_kahan(stored: StoredWeight) -> Tensor:
    return stored.weight.detach().float() + _extra(stored).float()


def _store_plain(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    is_wide = stored.weight.dtype == torch.float32
    stored.weight.copy_(value if is_wide else nearest_16_bits(value, stored.weight.dtype))


def _store_master(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    _extra(stored).copy_(value)
    stored.weight.copy_(nearest_16_bits(value, stored.weight.dtype))


def _store_split(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    weight = nearest_away_bf16(value)
    remainder = (value.view(torch.int32) - (weight.view(torch.int16).int() << 16)).to(torch.int16)
    stored.weight.copy_(weight)
    _extra(stored).copy_(torch.where(value.isnan(), 0, remainder))


def _store_stochastic(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    words = element_words(value.numel(), draw.seed, draw.offset, value.device).reshape(value.shape)
    stored.weight.copy_(exact_bf16(round_to_grid(value, _bf16_grid(), "stochastic", words)))


def _store_kahan(stored: StoredWeight, value: Tensor, draw: Draw) -> None:
    weight = nearest_16_bits(value, torch.bfloat16)
    rest = torch.where(weight.isfinite(), value - weight.float(), 0.0)
    stored.weight.copy_(weight)
    _extra(stored).copy_(nearest_16_bits(rest, torch.bfloat16))


@lru_cache(maxsize=1)
def _bf16_grid() -> ElementParameters:
    return cast_parameters(parse_cast("bf16 sr")).grid


_LOADS: dict[WeightKind, Callable[[StoredWeight], Tensor]] = {
    "plain": _load_plain,
    "master": _load_master,
    "split": _load_split,
    "stochastic": _load_plain,
    "kahan": _load_kahan,
}
_STORES: dict[WeightKind, Callable[[StoredWeight, Tensor, Draw], None]] = {
    "plain": _store_plain,
    "master": _store_master,
    "split": _store_split,
    "stochastic": _store_stochastic,
    "kahan": _store_kahan,
}
