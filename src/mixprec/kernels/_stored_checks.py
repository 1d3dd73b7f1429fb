"""What a weight and a moment may be kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixprec.formats import unknown_name

if TYPE_CHECKING:
    from mixprec.specs import MomentKind

    from ._optimizer_contract import StoredMoment, StoredWeight, WeightKind

FLOATS = frozenset((torch.float32, torch.bfloat16, torch.float16))
# Dtypes of the model's weight and of what is kept beside it.
_WEIGHTS: dict[WeightKind, tuple[tuple[torch.dtype, ...], torch.dtype | None]] = {
    "plain": ((torch.float32, torch.bfloat16, torch.float16), None),
    "master": ((torch.bfloat16, torch.float16), torch.float32),
    "split": ((torch.bfloat16,), torch.int16),
    "stochastic": ((torch.bfloat16,), None),
    "kahan": ((torch.bfloat16,), torch.bfloat16),
}
_MOMENTS: dict[MomentKind, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "e4m3": torch.uint8,
    "dynamic": torch.uint8,
}
_BLOCKS = (128, 256)


def check_weight(stored: StoredWeight) -> None:
    """Refuse other kinds and dtypes, and a second tensor that does not fit."""
    if stored.kind not in _WEIGHTS:
        raise unknown_name("way to keep a weight", stored.kind, _WEIGHTS)
    dtypes, beside = _WEIGHTS[stored.kind]
    weight, extra = stored.weight, stored.extra
    if weight.dtype not in dtypes:
        names = ", ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"a weight kept as {stored.kind!r} is {weight.dtype}, expected {names}")
    if beside is None:
        if extra is not None:
            raise ValueError(f"a weight kept as {stored.kind!r} has nothing beside it; leave `extra` out")
    elif extra is None or extra.dtype != beside or extra.shape != weight.shape or extra.device != weight.device:
        raise ValueError(
            f"beside a weight kept as {stored.kind!r}, {described(weight)}, lies `extra`, {beside} of the same shape "
            f"and device; got {'none' if extra is None else described(extra)}"
        )


def check_moment(stored: StoredMoment) -> None:
    """Refuse other kinds, dtypes and blocks, and scales that do not fit."""
    if stored.kind not in _MOMENTS:
        raise unknown_name("way to keep moments", stored.kind, _MOMENTS)
    values, dtype = stored.values, _MOMENTS[stored.kind]
    if values.dtype != dtype or not values.is_contiguous():
        raise ValueError(
            f"a moment kept as {stored.kind!r} is {described(values)} with strides {values.stride()}, expected "
            f"contiguous {dtype}"
        )
    if dtype != torch.uint8:
        return
    if stored.block not in _BLOCKS:
        raise ValueError(f"a moment's block is {stored.block}, expected 128 or 256")
    _check_beside(stored, stored.scales, torch.float32, "scales")
    if stored.kind == "e4m3":
        _check_beside(stored, stored.powers, torch.uint8, "powers")


def check_value(value: Tensor, kept: Tensor) -> None:
    """Refuse other values than as many fp32 ones beside what keeps them."""
    if value.dtype != torch.float32 or value.numel() != kept.numel() or value.device != kept.device:
        raise ValueError(
            f"the value to keep is {described(value)}: expected torch.float32 of shape {list(kept.shape)} on "
            f"{kept.device}"
        )


def described(tensor: Tensor) -> str:
    """A tensor in an error's text.

    Example:
        >>> described(torch.zeros(2))
        'torch.float32 [2] on cpu'
    """
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def _check_beside(stored: StoredMoment, tensor: Tensor | None, dtype: torch.dtype, name: str) -> None:
    count = -(-stored.values.numel() // stored.block)
    fits = tensor is not None and tensor.dtype == dtype and tensor.numel() == count and tensor.is_contiguous()
    if tensor is None or not fits or tensor.device != stored.values.device:
        raise ValueError(
            f"beside {stored.values.numel()} codes of a moment, in blocks of {stored.block}, lie `{name}`, contiguous "
            f"{dtype} [{count}] on {stored.values.device}; got {'none' if tensor is None else described(tensor)}"
        )
