"""Infinities that a program writes in its backward pass, and bad batches that go straight into the root."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mixprec
from mixprec.monitor import locate

INFINITY = torch.tensor(torch.inf)


def _set(grad):
    grad = grad.clone()
    grad[0] = torch.inf
    return grad


WRITTEN = "infinity written by the program"
#: What a custom backward does to its gradient; the operation and the cause that are told.
WAYS = {
    "number": (lambda g: g * float("inf"), "mul", WRITTEN),
    "tensor": (lambda g: g * INFINITY, "mul", WRITTEN),
    "full": (lambda g: g * torch.full_like(g, torch.inf), "full_like", WRITTEN),
    "fill": (lambda g: g.masked_fill(g != 0, torch.inf), "masked_fill", WRITTEN),
    "set": (_set, "fill_", WRITTEN),
    "added": (lambda g: g + float("nan"), "add", WRITTEN),
    "negative": (lambda g: g * -float("inf"), "mul", WRITTEN),
    "zero": (lambda g: g / 0.0, "div", "log or division of a zero"),
    "overflow": (lambda g: g * 1e30 * 1e30, "mul", "gradient overflow"),
}


@pytest.mark.parametrize("recipe", [None, "fp16", "mxfp8"])
@pytest.mark.parametrize("way", WAYS)
def test_a_custom_backward_is_told_with_its_own_module_and_operation(way, recipe):
    change, operation, cause = WAYS[way]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return change(grad)

    class Custom(nn.Module):
        def forward(self, x):
            return Function.apply(x)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), Custom(), nn.Linear(32, 32))
    conversion = None if recipe is None else mixprec.convert(model, recipe)
    x = torch.randn(4, 32)
    fault = locate(model, lambda: model(x).square().mean().backward())
    assert (fault.site, fault.operation, fault.direction) == ("2", operation, "backward")
    assert fault.cause.name == cause
    if conversion is not None:
        conversion.restore()


class Functional(nn.Module):
    """A container whose first operation is a function."""

    def __init__(self, first):
        super().__init__()
        self.weight, self.first = nn.Parameter(torch.eye(32)), first

    def forward(self, x):
        return self.first(x, self.weight)


ROOTS = {
    "linear": lambda: nn.Linear(32, 32),
    "sequential": lambda: nn.Sequential(nn.Linear(32, 32)),
    "functional": lambda: Functional(nn.functional.linear),
    "product": lambda: Functional(torch.matmul),
    "convolution": lambda: nn.Conv1d(3, 4, 3),
    "gru": lambda: nn.GRU(32, 32, batch_first=True),
    "attention": lambda: nn.TransformerEncoderLayer(32, 2, 64, batch_first=True),
    "norm": lambda: nn.LayerNorm(32),
}


@pytest.mark.parametrize("recipe", ["fp16", "bf16", "mxfp8", "fp8-delayed", "mxfp4"])
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_batch_into_the_root_is_told_as_one(root, recipe, bad):
    torch.manual_seed(0)
    model = ROOTS[root]()
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    x = torch.randn(2, 3, 32)
    x[0, 0, 0] = bad

    def loss():
        y = model(x)
        return (y[0] if isinstance(y, tuple) else y).float().square().sum()

    fault = session.locate(loss)
    assert (fault.site, fault.cause.name) == ("<input>", "bad input data")
    result = session.step(loss())
    assert "in <input> (args[0])" in result.reason
    session.restore()
