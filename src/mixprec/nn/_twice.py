"""Second derivatives of products without casts, for regions of functions: a gradient penalty, say.

A product's own backward pass exists once. Where a graph of it is asked for, the product is made anew from what it has
kept, of torch's operations in fp32 on the same rounded operands, and those are differentiated; rounding counts as the
identity, as it does in every backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from ._autograd import plain_torch
from ._once import once

_R = TypeVar("_R")
#: Gives the inputs of a product, by position, and the product made anew of them; ``None``: there is no second time.
Again = Callable[[Any], tuple[Sequence[Tensor | None], Callable[[], Tensor]] | None]


def twice(again: Again) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """A backward pass that runs without gradients, or, where it is to be differentiated and can be, on ``again``."""

    def decorate(backward: Callable[..., _R]) -> Callable[..., _R]:
        single = once(backward)

        @functools.wraps(backward)
        def wrapper(ctx: Any, *grad_outputs: Any) -> Any:
            is_asked = torch.is_grad_enabled() and not torch.compiler.is_compiling()
            found = again(ctx) if is_asked else None
            return single(ctx, *grad_outputs) if found is None else _differentiated(ctx, *found, *grad_outputs)

        return wrapper

    return decorate


def _differentiated(
    ctx: Any, inputs: Sequence[Tensor | None], make: Callable[[], Tensor], grad: Tensor
) -> tuple[Tensor | None, ...]:
    wanted = [i for i, t in enumerate(inputs) if t is not None and ctx.needs_input_grad[i]]
    device_type = grad.device.type
    with plain_torch(device_type):
        y = make()
        leaves: Any = [inputs[i] for i in wanted]
        found: Any = torch.autograd.grad(y, leaves, grad.to(y.dtype), create_graph=True)
    by_position = dict(zip(wanted, found, strict=True))
    return tuple(by_position.get(i) for i in range(len(ctx.needs_input_grad)))


class _Rounded(torch.autograd.Function):
    """A weight's values in a 16-bit dtype, in fp32; its gradient is not rounded, as no layer's is."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, dtype: torch.dtype) -> Tensor:
        return weight.to(dtype).float()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0], None


def rounded_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight's values in a 16-bit dtype, in fp32."""
    return _Rounded.apply(weight, dtype)  # pyright: ignore[reportReturnType]


def stand_in(*shape: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    """For an input that was not kept, since the product's gradients do not depend on it."""
    return torch.zeros(shape, dtype=dtype, device=like.device, requires_grad=True)
