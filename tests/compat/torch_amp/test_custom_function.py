"""Autograd functions of the user's own inside a region."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mixprec.compat.torch_amp import autocast, custom_bwd, custom_fwd


class Product(torch.autograd.Function):
    """Follows the region in both passes."""

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        assert torch.is_autocast_enabled("cpu")
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        da, db = grad_outputs[0].mm(b.t()), a.t().mm(grad_outputs[0])
        assert {da.dtype, db.dtype} == {torch.float16}
        assert torch.sigmoid(da).dtype == torch.float32  # the region's rules, not torch's
        return da, db


class InFp32(torch.autograd.Function):
    """Has its inputs cast, and runs outside of the region."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("cpu")
        (x,) = ctx.saved_tensors
        return grad_outputs[0] @ x.t() + x.t() @ grad_outputs[0]


def test_a_function_that_follows_the_region() -> None:
    torch.manual_seed(0)
    a, b = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))
    with autocast("cpu", torch.float16):
        y = Product.apply(a, b)
    assert y.dtype == torch.float16
    y.float().sum().backward()
    assert a.grad is not None
    exact = torch.ones(4, 4).double() @ b.detach().half().double().t()
    assert torch.equal(a.grad, exact.half().float())


def test_a_function_whose_inputs_are_cast() -> None:
    x = torch.randn(3, 3, dtype=torch.bfloat16, requires_grad=True)
    with autocast("cpu", torch.bfloat16):
        y = InFp32.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    wide = x.detach().float()
    assert x.grad is not None
    assert torch.equal(x.grad, (torch.ones(3, 3) @ wide.t() + wide.t() @ torch.ones(3, 3)).bfloat16())


def test_outside_of_a_region_nothing_is_cast() -> None:
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert Product.forward.__name__ == "forward"
    assert custom_fwd(lambda ctx, t: t, device_type="cpu", cast_inputs=torch.float32)(_Context(), x) is x


class _Context:
    """What ``custom_fwd`` writes to."""
