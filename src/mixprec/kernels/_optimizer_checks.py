"""What an optimizer's step refuses, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixprec.formats import unknown_name

from ._optimizer_contract import AdamWRule, MomentKind, Rule, SGDRule, Slot, StoredMoment, StoredWeight, WeightKind

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_HALVES = (torch.bfloat16, torch.float16)
# Dtypes of the model's weight and of what is kept beside it.
_WEIGHTS: dict[WeightKind, tuple[tuple[torch.dtype, ...], torch.dtype | None]] = {
    "plain": (_FLOATS, None),
    "master": (_HALVES, torch.float32),
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


def check_gradients(gradients: Sequence[Tensor]) -> None:
    """Refuse other dtypes, sparse tensors and several devices."""
    for i, gradient in enumerate(gradients):
        check_gradient(gradient, i)
        if gradient.device != gradients[0].device:
            raise ValueError(
                f"gradient {i} lies on {gradient.device}, gradient 0 on {gradients[0].device}: expected one device; "
                "sum the squares of each device's gradients in a call of its own"
            )


def check_gradient(gradient: Tensor, i: int) -> None:
    """Refuse what cannot be widened to fp32 exactly."""
    if gradient.dtype not in _FLOATS or gradient.layout != torch.strided:
        raise TypeError(
            f"gradient {i} is {gradient.dtype}, {gradient.layout}: expected a dense float32, bfloat16 or float16 "
            "tensor; a sparse or float64 gradient is left to an optimizer of torch"
        )


def check_slots(slots: Sequence[Slot], rule: Rule) -> None:
    """Refuse slots that do not fit the rule, each other or themselves."""
    count = _moment_count(rule)
    for i, slot in enumerate(slots):
        weight, gradient = slot.weight.weight, slot.gradient
        check_gradient(gradient, i)
        check_weight(slot.weight, i)
        if gradient.shape != weight.shape or gradient.device != weight.device:
            raise ValueError(
                f"slot {i}: the gradient is {_described(gradient)}, the weight {_described(weight)}: expected one "
                "shape and device"
            )
        if weight.device != slots[0].weight.weight.device:
            raise ValueError(
                f"slot {i} lies on {weight.device}, slot 0 on {slots[0].weight.weight.device}: expected one device; "
                "step each device's slots in a call of its own"
            )
        if len(slot.moments) not in count:
            raise ValueError(
                f"slot {i} has {len(slot.moments)} moments, {type(rule).__name__} takes "
                f"{' or '.join(str(number) for number in count)}"
            )
        for moment in slot.moments:
            check_moment(moment, i)
            if moment.values.numel() != weight.numel() or moment.values.device != weight.device:
                raise ValueError(
                    f"slot {i}: a moment is {_described(moment.values)}, the weight {_described(weight)}: expected as "
                    "many elements on one device"
                )


def _moment_count(rule: Rule) -> tuple[int, ...]:
    if isinstance(rule, AdamWRule):
        return (2,)
    if isinstance(rule, SGDRule):  # pyright: ignore[reportUnnecessaryIsInstance]  # for callers without types
        return (1,) if rule.momentum else (0,)
    raise TypeError(f"got a rule of type {type(rule).__name__}, expected AdamWRule or SGDRule")


def check_weight(stored: StoredWeight, i: int) -> None:
    """Refuse other kinds and dtypes, and a second tensor that does not fit."""
    if stored.kind not in _WEIGHTS:
        raise unknown_name("way to keep a weight", stored.kind, _WEIGHTS)
    dtypes, beside = _WEIGHTS[stored.kind]
    weight, extra = stored.weight, stored.extra
    if weight.dtype not in dtypes:
        names = ", ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"slot {i}: a weight kept as {stored.kind!r} is {weight.dtype}, expected {names}")
    if beside is None:
        if extra is not None:
            raise ValueError(f"slot {i}: a weight kept as {stored.kind!r} has nothing beside it; leave `extra` out")
    elif extra is None or extra.dtype != beside or extra.shape != weight.shape or extra.device != weight.device:
        got = "none" if extra is None else _described(extra)
        raise ValueError(
            f"slot {i}: beside a weight kept as {stored.kind!r}, {_described(weight)}, lies `extra`, {beside} of the "
            f"same shape and device; got {got}"
        )


def check_moment(stored: StoredMoment, i: int) -> None:
    """Refuse other kinds, dtypes and blocks, and scales that do not fit."""
    if stored.kind not in _MOMENTS:
        raise unknown_name("way to keep moments", stored.kind, _MOMENTS)
    values, dtype = stored.values, _MOMENTS[stored.kind]
    if values.dtype != dtype or not values.is_contiguous():
        raise ValueError(
            f"slot {i}: a moment kept as {stored.kind!r} is {_described(values)} with strides {values.stride()}, "
            f"expected contiguous {dtype}"
        )
    if dtype != torch.uint8:
        return
    if stored.block not in _BLOCKS:
        raise ValueError(f"slot {i}: a moment's block is {stored.block}, expected 128 or 256")
    blocks = -(-values.numel() // stored.block)
    _check_beside(stored.scales, torch.float32, blocks, i, "scales")
    if stored.kind == "e4m3" and stored.expand:
        _check_beside(stored.powers, torch.uint8, blocks, i, "powers")


def check_value(value: Tensor, kept: Tensor) -> None:
    """Refuse other values than as many fp32 ones beside what keeps them."""
    if value.dtype != torch.float32 or value.numel() != kept.numel() or value.device != kept.device:
        raise ValueError(
            f"the value to keep is {_described(value)}: expected torch.float32 of shape {list(kept.shape)} on "
            f"{kept.device}"
        )


def _check_beside(tensor: Tensor | None, dtype: torch.dtype, count: int, i: int, name: str) -> None:
    if tensor is None or tensor.dtype != dtype or tensor.numel() != count or not tensor.is_contiguous():
        got = "none" if tensor is None else _described(tensor)
        raise ValueError(f"slot {i}: an 8-bit moment has `{name}`, contiguous {dtype} [{count}]; got {got}")


def _described(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
