"""Every keeping under every optimizer: what the optimizer computes, and that a regression trains as in fp32."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter

from mixprec.optim import keep_weights

from .optimizers import OPTIMIZERS

KEEPINGS = ("master", "split", "stochastic", "kahan", "true")
# How far the loss of the regression may end above fp32's, in shares of the loss at the start. Gradients are those at
# 16-bit weights under every keeping, and optimizers that divide by small moments make much of that.
ALLOWED = {"master": 0.04, "split": 0.04, "kahan": 0.04, "stochastic": 0.05, "true": 0.25}
STEPS = 120


def parameters(dtype: torch.dtype = torch.bfloat16) -> list[Parameter]:
    torch.manual_seed(0)
    shapes = [(6, 4), (4,), (3, 2)]
    return [Parameter(torch.randn(shape).to(dtype)) for shape in shapes]


def give_gradients(params: list[Parameter], twins: list[Parameter], step: int, factor: float) -> None:
    """The same 16-bit gradients to both; to the twins in fp32, multiplied."""
    generator = torch.Generator().manual_seed(step)
    for p, q in zip(params, twins, strict=True):
        grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        p.grad, q.grad = grad, grad.float() * factor


@pytest.mark.parametrize("kind", ["master", "split"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masters_and_split_weights_are_those_of_an_fp32_run_bit_for_bit(name: str, kind: str) -> None:
    params = parameters()
    twins = [Parameter(p.detach().float()) for p in params]
    optimizer, reference = OPTIMIZERS[name](params), OPTIMIZERS[name](twins)
    kept = keep_weights(optimizer, kind)
    for step in range(12):
        give_gradients(params, twins, step, 0.3)
        kept.apply(0.3)
        reference.step()
    stepped = {p for group in reference.param_groups for p in group["params"]}
    assert stepped
    for p, q in zip(params, twins, strict=True):
        if q in stepped:
            assert torch.equal(kept.full_weight(p), q)
            assert p.dtype == torch.bfloat16
            assert (p.float() - q).abs().max() <= 2.0**-8 * q.abs().max()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fp16_masters_are_those_of_an_fp32_run(name: str) -> None:
    params = parameters(torch.float16)
    twins = [Parameter(p.detach().float()) for p in params]
    optimizer, reference = OPTIMIZERS[name](params), OPTIMIZERS[name](twins)
    kept = keep_weights(optimizer, "master")
    for step in range(5):
        give_gradients(params, twins, step, 2.0**-3)
        kept.apply(2.0**-3)
        reference.step()
    for param in kept.parameters():
        twin = twins[[p is param for p in params].index(True)]
        assert torch.equal(kept.full_weight(param), twin)
        assert torch.equal(param, twin.half())


@pytest.mark.parametrize("kind", KEEPINGS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_regression_trains_as_in_fp32(name: str, kind: str) -> None:
    start, fp32 = regression(name, None)
    _, found = regression(name, kind)
    assert fp32 < 0.5 * start
    assert found - fp32 <= ALLOWED[kind] * start


@functools.cache
def regression(name: str, kind: str | None) -> tuple[float, float]:
    """Losses of the fp32 model with the full weights, before and after training."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Tanh(), nn.Linear(16, 1, bias=False))
    x = torch.randn(64, 8)
    y = torch.sin(x.sum(1, keepdim=True))
    before = loss_of(model, x, y).item()
    if kind is None:
        optimizer = OPTIMIZERS[name](list(model.parameters()))
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
        return before, loss_of(model, x, y).item()
    model.bfloat16()
    kept = keep_weights(OPTIMIZERS[name](list(model.parameters())), kind, seed=5)
    for _ in range(STEPS):
        kept.begin_backward()
        loss_of(model, x, y).backward()
        kept.apply(1.0)
        kept.clear_gradients()
    full = [kept.full_weight(p) for p in model.parameters()]
    model.float()
    for p, value in zip(model.parameters(), full, strict=True):
        p.data = value
    return before, loss_of(model, x, y).item()


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The products in fp32, of whatever the weights hold: what is tested is the keeping."""
    first, _, last = model
    hidden = torch.tanh(x @ first.weight.float().T)
    return (hidden @ last.weight.float().T - y).square().mean()


@pytest.mark.parametrize("kind", ["master", "split", "kahan"])
def test_weight_decay_of_16_bit_weights_is_not_lost(kind: str) -> None:
    param = Parameter(torch.tensor([1.0, -3.0, 0.37], dtype=torch.bfloat16))
    exact = param.detach().double()
    kept = keep_weights(torch.optim.SGD([param], lr=1e-3, weight_decay=0.1), kind)
    for _ in range(1000):
        param.grad = torch.zeros_like(param)
        kept.apply(1.0)
    exact *= (1 - 1e-4) ** 1000
    tolerance = 1e-6 if kind != "kahan" else 2.0**-9
    assert torch.allclose(kept.full_weight(param).double(), exact, rtol=10 * tolerance)
    assert torch.allclose(param.double(), exact, rtol=2.0**-8)


def test_true_loses_that_weight_decay() -> None:
    param = Parameter(torch.tensor([1.0, -3.0], dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([param], lr=1e-3, weight_decay=0.1), "true")
    for _ in range(1000):
        param.grad = torch.zeros_like(param)
        kept.apply(1.0)
    assert param.tolist() == [1.0, -3.0]
