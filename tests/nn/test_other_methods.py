"""Layers that something else than the model's own forward calls: a method, a loop around parts of the model."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import mixprec
from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.net(x) - y).square().mean()


def _prepared(cast: str, **options: str) -> tuple[Critic, mixprec.Session]:
    torch.manual_seed(0)
    model = Critic()
    precision = LayerPrecision.uniform(cast)
    recipe = Recipe(name="tried", rules=(Rule(precision=precision),), engine="emulated", **options)  # pyright: ignore[reportArgumentType]
    return model, mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0), recipe)


def _batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 64, generator=generator), torch.randn(8, 1, generator=generator)


def test_stochastic_casts_draw_anew_in_every_call() -> None:
    model, session = _prepared("mxfp4 sr")
    seen: set[bytes] = set()
    for _ in range(6):
        session.backward(model.loss(*_batch()))
        gradient = model.net[0].weight.grad
        assert gradient is not None
        seen.add(gradient.numpy().tobytes())
        session.step()
    assert len(seen) == 6


def test_delayed_scales_see_the_amaxes() -> None:
    model, session = _prepared("e4m3[tensor] delayed(2)")
    for _ in range(3):
        session.step(model.loss(*_batch()))
    histories = {n: h for n, h in session.state_dict()["histories"].items() if n.startswith("net.")}
    assert len(histories) == 6
    assert all(bool((h > 0.0).any()) for h in histories.values())


def test_the_audit_has_the_layers() -> None:
    model, session = _prepared("mxfp8")
    session.step(model.loss(*_batch()))
    assert {row.site for row in session.audit().rows} == {"net.0", "net.2"}
    assert {row.gemm for row in session.audit().rows} >= {"fprop", "wgrad"}


def test_parts_give_fp32_as_the_model_does() -> None:
    model = Critic()
    convert(model, mixprec.recipe("bf16", engine="emulated"))
    x = _batch()[0]
    assert model(x).dtype == model.net(x).dtype == model.net[0](x).dtype == torch.float32
    assert (model.net[:2](x) @ torch.ones(64, 1)).dtype == torch.float32


@pytest.mark.parametrize("name", ["mxfp8", "fp8", "nvfp4"])
def test_a_method_has_the_numbers_of_the_forward(name: str) -> None:
    torch.manual_seed(0)
    model = Critic()
    recipe = mixprec.recipe(name)
    convert(model, recipe)
    other = copy.deepcopy(model)
    x, y = _batch()
    model.loss(x, y).backward()
    (other(x) - y).square().mean().backward()
    first = zip(model.parameters(), other.parameters(), strict=True)
    if name != "nvfp4":  # stochastic gradients: each call has random bits of its own
        for a, b in first:
            assert a.grad is not None
            assert b.grad is not None
            assert torch.equal(a.grad, b.grad)
    assert torch.equal(model.net(x), other(x))


def test_a_part_that_is_checkpointed_by_itself() -> None:
    grads = []
    for checkpointed in (False, True):
        model, session = _prepared("mxfp4 sr")
        x = _batch()[0].requires_grad_()
        h = checkpoint(model.net[0], x, use_reentrant=False) if checkpointed else model.net[0](x)
        session.backward(model.net[2](torch.relu(h)).sum())
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(grads[0]) == len(grads[1]) == 4
    for a, b in zip(*grads, strict=True):
        assert torch.equal(a, b)
