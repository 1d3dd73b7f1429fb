"""Tensors, such as masks, that are added to fp16 tensors in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._ranges import LARGEST_FP16, leaves_fp16, widened
from ._site import ConversionState

_Function = Callable[..., Any]


def in_place_sum(state: ConversionState, func: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``scores += mask`` in fp16, where a mask of the lowest value under a negative score leaves the range.

    The tensor then becomes an fp32 one that holds the sum, as the sum out of place would be: all names that it has see
    it.
    """
    x, other = args[0], kwargs["other"] if len(args) < 2 else args[1]
    if x.dtype != torch.float16 or not (isinstance(other, Tensor) or leaves_fp16(other, x)):
        return func(*args, **kwargs)
    y = _OUT_OF_PLACE[func](x.float(), widened(other), **{k: v for k, v in kwargs.items() if k != "other"})
    beyond = (y.abs() > LARGEST_FP16) & y.isfinite()
    if not torch.compiler.is_compiling():
        if not bool(beyond.any()):
            return func(*args, **kwargs)
        if _become(x, y):
            return x
        if bool(beyond.all(-1).any()):
            raise RuntimeError(
                f"{state.current.running or 'the model'}: {func.__name__} in fp16 got a row whose sums all leave "
                f"fp16's range (a mask of its lowest value under negative scores), in a tensor of {list(x.shape)} "
                "that others hold views of: expected sums that fp16 can tell apart; write scores = scores + mask, "
                "which is kept in fp32"
            )
    return x.copy_(torch.where(y.isinf(), y, y.clamp(-LARGEST_FP16, LARGEST_FP16)))


def _become(x: Tensor, y: Tensor) -> bool:
    """Make ``x`` the tensor ``y``, unless a view or another holder of its memory would not see it."""
    holders = torch._C._storage_Use_Count(x.untyped_storage()._cdata) - 1  # pyright: ignore[reportPrivateUsage]  # one is this call's
    if holders > (2 if x._is_view() else 1):  # a view keeps the tensor that it was made of
        return False
    try:
        torch.utils.swap_tensors(x, y)
    except RuntimeError:
        return False
    return True


_OUT_OF_PLACE: Mapping[_Function, _Function] = {
    torch.Tensor.add_: torch.add,
    torch.Tensor.__iadd__: torch.add,
    torch.Tensor.sub_: torch.sub,
    torch.Tensor.__isub__: torch.sub,
}
IN_PLACE_SUMS: Mapping[_Function, Callable[..., Any]] = dict.fromkeys(_OUT_OF_PLACE, in_place_sum)
