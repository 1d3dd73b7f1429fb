"""Gradients of 16-bit parameters that become fp32 where they are added up or scaled."""

# torch marks its multi-tensor functions private; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter

HALF_DTYPES = (torch.bfloat16, torch.float16)


class WideGradients:
    """16-bit parameters whose gradients may be wider than they are."""

    def __init__(self) -> None:
        self._params: dict[Parameter, None] = {}

    def __contains__(self, param: Parameter) -> bool:
        return param in self._params

    def allow(self, param: Parameter) -> None:
        """Let a parameter's gradient be wider than the parameter."""
        if not hasattr(param, "grad_dtype"):
            raise ValueError(
                f"sums of gradients in fp32 for {param.dtype} parameters need torch 2.10 or newer (Tensor.grad_dtype), "
                f"got torch {torch.__version__}: upgrade torch, or keep fp32 parameters (model.float())"
            )
        param.grad_dtype = None
        self._params[param] = None

    def widen(self) -> None:
        """Make the gradients that are there fp32, exactly."""
        for param in self._params:
            if param.grad is not None and param.grad.dtype in HALF_DTYPES:
                param.grad = param.grad.float()

    def release(self) -> None:
        """Give every parameter its gradient back in its own dtype."""
        for param in self._params:
            grad, param.grad = param.grad, None
            param.grad_dtype = param.dtype
            if grad is not None:
                param.grad = grad.to(param.dtype)
        self._params.clear()


@torch.no_grad()
def scale_gradients(params: Iterable[Parameter], factor: float) -> None:
    """Multiply gradients in place; a sparse one is coalesced first, so that an index that occurs twice is one element.

    16-bit gradients have been made fp32 before.
    """
    if factor == 1.0:
        return
    values = [_values(param) for param in params if param.grad is not None]
    if values:
        torch._foreach_mul_(values, factor)


def _values(param: Parameter) -> Tensor:
    grad = param.grad
    if grad is None:
        raise ValueError("a parameter without a gradient was asked for its gradient's values")
    if grad.layout == torch.sparse_coo:
        grad = param.grad = grad.coalesce()
        grad = grad._values()
    return torch.view_as_real(grad) if grad.is_complex() else grad
