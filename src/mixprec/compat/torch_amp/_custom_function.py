"""Decorators for the two passes of a user's own ``torch.autograd.Function``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._autocast import autocast
from ._device_here import device_here

Method = Callable[..., Any]


def custom_fwd(fwd: Method | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None) -> Any:
    """``torch.amp.custom_fwd``: the forward pass of an autograd function inside a region.

    Args:
        fwd: the function's ``forward``; ``None`` gives a decorator.
        device_type: of the region; where there is no CUDA, the CPU stands for it.
        cast_inputs: what floating tensors of the region's device are cast to; the forward pass then runs with autocast
            off. ``None``: it runs by the region's rules.

    Example:
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...
        ...     @staticmethod
        ...     @custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> with autocast("cpu"):
        ...     Double.apply(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return torch.amp.custom_fwd(fwd, device_type=device_here(device_type), cast_inputs=cast_inputs)


def custom_bwd(bwd: Method | None = None, *, device_type: str) -> Any:
    """``torch.amp.custom_bwd``: the backward pass has the rules that its forward pass had.

    Args:
        bwd: the function's ``backward``; ``None`` gives a decorator.
        device_type: of the region; where there is no CUDA, the CPU stands for it.
    """
    device = device_here(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *grad_outputs: Any, **kwargs: Any) -> Any:
        with autocast(device, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *grad_outputs, **kwargs)

    return decorated
