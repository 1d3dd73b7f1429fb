"""A place in the graph where the gradient of a product's result passes by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Takes the gradient, the input and the weight.
Taken = Callable[[Tensor, Tensor, Tensor], None]


class Tap(torch.autograd.Function):
    """``y`` as it is; in the backward pass its gradient is shown, with the operands that ``y`` came from.

    The anchor is a scalar that requires a gradient: so every tap is reached by a backward pass towards it alone, frozen
    weights or not, and no parameter's gradient is made. The operands are saved as any function's are, so that
    activation checkpointing recomputes them.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, anchor: Tensor, x: Tensor, weight: Tensor, taken: Taken) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.taken, ctx.anchor = taken, anchor.shape
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # one output
        (g,) = grad_outputs
        x, weight = ctx.saved_tensors
        ctx.taken(g, x.detach(), weight.detach())
        return g, g.new_zeros(ctx.anchor), None, None, None
