"""QuEST's clipping: what was clipped passes no gradient on, in the space after the transform."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mixprec import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

RULE = "mxfp4 quest ht32"


def hadamard(size: int) -> Tensor:
    h = torch.ones(1, 1, dtype=torch.float64)
    while h.shape[0] < size:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    return h / math.sqrt(size)


def kept(matrix: Tensor) -> Tensor:
    """Where the transform of a matrix of whole blocks lies within 6 times QuEST's scale."""
    moved = (matrix.double().reshape(matrix.shape[0], -1, 32) @ hadamard(32)).flatten(1)
    blocks = moved.reshape(matrix.shape[0], -1, 32)
    scale = 2.0 ** torch.floor(torch.log2(2.92247856 / 6 * blocks.std(-1, correction=0, keepdim=True)))
    return (blocks.abs() <= 6 * scale).flatten(1)


def masked(gradient: Tensor, mask: Tensor) -> Tensor:
    """The gradient without what was clipped, through the transform and back (it is its own inverse)."""
    moved = (gradient.double().reshape(gradient.shape[0], -1, 32) @ hadamard(32)).flatten(1)
    return ((moved * mask).reshape(gradient.shape[0], -1, 32) @ hadamard(32)).flatten(1)


def test_clipped_elements_pass_no_gradient_on() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 48, bias=False)
    weight = layer.weight.detach().clone()
    x = (torch.randn(24, 64) ** 3).requires_grad_()  # heavy tails: some are clipped
    cast = LayerPrecision(fprop_input=LayerPrecision.uniform(RULE).fprop_input,
                          fprop_weight=LayerPrecision.uniform(RULE).fprop_weight)  # fmt: skip
    convert(layer, Recipe(name="clipped", rules=(Rule(precision=cast),)))
    grad = torch.randn(24, 48)
    layer(x).backward(grad)
    kept_x, kept_w = kept(x.detach()), kept(weight)
    assert 0 < (~kept_x).sum() < kept_x.numel() / 10
    want_x = masked(grad.double() @ weight.double(), kept_x)
    want_w = masked(grad.double().T @ x.detach().double(), kept_w)
    assert x.grad is not None
    assert layer.weight.grad is not None
    torch.testing.assert_close(x.grad.double(), want_x, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad.double(), want_w, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(x.grad.double(), grad.double() @ weight.double(), atol=1e-3)


def test_clipped_elements_of_a_batched_product_pass_no_gradient_on() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 64, 48) ** 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(x, self.weight)

    torch.manual_seed(0)
    model, x, grad = Experts(), (torch.randn(2, 24, 64) ** 3).requires_grad_(), torch.randn(2, 24, 48)
    w = model.weight.detach().clone().double()
    uniform = LayerPrecision.uniform(RULE)
    cast = LayerPrecision(fprop_input=uniform.fprop_input, fprop_weight=uniform.fprop_weight)
    convert(model, Recipe(name="clipped", rules=(Rule(precision=cast),)))
    model(x).backward(grad)
    for i in range(2):
        want_x = masked(grad[i].double() @ w[i].T, kept(x.detach()[i]))
        want_w = masked(grad[i].double().T @ x.detach()[i].double(), kept(w[i].T)).T
        torch.testing.assert_close(x.grad[i].double(), want_x, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(model.weight.grad[i].double(), want_w, rtol=1e-4, atol=1e-3)
