"""Models of several convolutions, traced by torch's compiler: the numbers of the plain loop, bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import recipe

# torch's compiler instantiates autograd functions itself, and its own imports use torch.jit.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning"),
]


def _chain() -> nn.Module:
    """Groups, strides, a weight in whole blocks (the third) and one convolution that rules take for the head."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, groups=2),
        nn.GELU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 1),
        nn.Conv2d(64, 32, 3),
    )


def _step(model: nn.Module, run: nn.Module) -> list[Tensor]:
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = run(x)
    y.square().sum().backward()
    assert x.grad is not None
    return [y.detach(), x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize(
    "name", ["mxfp8", "nvfp4", *(pytest.param(n, marks=pytest.mark.slow) for n in ("bf16", "fp8", "fp8-block", "int8"))]
)
def test_a_traced_chain_has_the_bits_of_the_plain_loop(name: str) -> None:
    plain = _chain()
    traced = copy.deepcopy(plain)
    convert(plain, recipe(name, engine="emulated"))
    convert(traced, recipe(name, engine="emulated"))
    torch._dynamo.reset()
    compiled = torch.compile(traced, backend="aot_eager", fullgraph=True)
    for want, got in zip(_step(plain, plain), _step(traced, compiled), strict=True):
        assert torch.equal(got, want)
