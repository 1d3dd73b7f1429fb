"""Calls that torch refuses, or gets wrong, once some of a model's fp32 tensors have become 16-bit ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._in_place_sums import IN_PLACE_SUMS
from ._ranges import LARGEST_FP16, leaves_fp16, widened
from ._site import ConversionState

Function = Callable[..., Any]
Handler = Callable[[ConversionState, Function, tuple[Any, ...], dict[str, Any]], Any]
_16_BIT = (torch.float16, torch.bfloat16)


def in_fp32(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call with its 16-bit arguments in fp32."""
    return func(*(widened(a) for a in args), **{name: widened(v) for name, v in kwargs.items()})


def promoted(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In fp32 where a tensor is fp32 already, or a constant leaves fp16: these functions take one dtype only."""
    values = (*args, *kwargs.values())
    floating = [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
    mixed = len({v.dtype for v in floating}) > 1
    if "out" not in kwargs and (mixed or any(leaves_fp16(v, t) for v in values for t in floating)):
        return in_fp32(state, func, args, kwargs)
    return func(*args, **kwargs)


def written(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is written into a floating tensor takes that tensor's dtype; a constant too large for it, its limit."""
    target = args[0]

    def fitting(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point() and target.is_floating_point():
            return value.to(target.dtype)
        if leaves_fp16(value, target) and abs(value) > LARGEST_FP16:
            return LARGEST_FP16 if value > 0 else -LARGEST_FP16
        return value

    return func(target, *(fitting(a) for a in args[1:]), **{name: fitting(v) for name, v in kwargs.items()})


def scaled(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A factor or divisor that leaves fp16, and a square written as a product."""
    if len(args) == 2 and "out" not in kwargs:
        a, b = args
        if leaves_fp16(a, b) or leaves_fp16(b, a) or (a is b and a.dtype == torch.float16):
            return in_fp32(state, func, args, kwargs)
    return func(*args, **kwargs)


def counted(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Integers (positions, counts) that a model gives the dtype of its activations: 16 bits would merge them."""
    y = func(*args, **kwargs)
    if y.dtype not in _16_BIT or args[0].is_floating_point() or args[0].dtype == torch.bool:
        return y
    return args[0].to(device=y.device, dtype=torch.float32)


def ranged(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``arange`` and ``linspace`` in fp32 where 16 bits were asked for."""
    if kwargs.get("dtype") in _16_BIT and "out" not in kwargs:
        kwargs = {**kwargs, "dtype": torch.float32}
    return func(*args, **kwargs)


def accumulator(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A single number that 16 bits were asked for (a counter, a sum of losses) in fp32: it promotes nothing."""
    y = func(*args, **kwargs)
    return y.float() if y.dim() == 0 and y.dtype in _16_BIT and not y.requires_grad else y


def filled(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``full``, ``full_like`` and ``new_full`` in fp32 where fp16 cannot hold the constant."""
    like = args[0] if args and isinstance(args[0], Tensor) else None
    dtype = kwargs.get("dtype") or (None if like is None else like.dtype)
    if dtype == torch.float16 and "out" not in kwargs:
        probe = torch.empty(0, dtype=torch.float16)
        if any(leaves_fp16(v, probe) for v in (*args, *kwargs.values())):
            kwargs = {**kwargs, "dtype": torch.float32}
    return func(*args, **kwargs)


def _table() -> Mapping[Function, Handler]:
    both, method = (torch, torch.Tensor), (torch.Tensor,)
    groups: tuple[tuple[Handler, tuple[Any, ...], str], ...] = (
        (promoted, both, "index_put scatter scatter_add scatter_reduce index_add index_copy index_reduce"),
        (promoted, both, "masked_scatter lerp dot vdot inner cross logaddexp bucketize searchsorted index_fill"),
        (promoted, (torch.linalg,), "cross vecdot"),
        (written, method, "__setitem__ index_put_ scatter_ scatter_add_ scatter_reduce_ index_add_ index_copy_"),
        (written, method, "index_reduce_ masked_scatter_ lerp_ masked_fill_ fill_ index_fill_"),
        (scaled, both, "mul multiply div divide true_divide __mul__ __rmul__ __truediv__ __rtruediv__"),
        (counted, method, "type_as to"),
        (ranged, (torch,), "arange linspace logspace"),
        (accumulator, both, "zeros ones tensor scalar_tensor new_zeros new_ones new_tensor"),
        (filled, both, "full full_like new_full"),
    )
    table: dict[Function, Handler] = {}
    for handler, owners, names in groups:
        table.update(dict.fromkeys(spelled(names, *owners), handler))
    table.update(IN_PLACE_SUMS)
    return table


def spelled(names: str, *owners: Any) -> Iterable[Function]:
    """Every function of these names that torch has in the owners."""
    return [getattr(owner, name) for owner in owners for name in names.split() if hasattr(owner, name)]


PLUMBING: Mapping[Function, Handler] = _table()
