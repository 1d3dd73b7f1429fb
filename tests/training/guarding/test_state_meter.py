"""Weights and moments in numbers: each largest magnitude is exact, and bad elements are seen."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mixprec import prepare
from mixprec.training.guarding import StateMeter


def meter_of(model: nn.Module, recipe: str = "bf16") -> tuple[StateMeter, torch.optim.Optimizer]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = prepare(model, optimizer, recipe)
    for _ in range(2):
        session.step(model(torch.randn(4, 8)).square().mean())
    return StateMeter(model, session._kept), session.optimizer


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4))


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "bf16-sr", "fp16", "mxfp8"])
def test_every_magnitude_is_that_of_the_tensor(recipe: str):
    model = net()
    meter, optimizer = meter_of(model, recipe)
    for _ in range(2):  # the room for the numbers is used again
        numbers = meter.measure(with_spread=False)
        own = {name: p.detach().abs().max().item() for name, p in model.named_parameters()}
        kept = {name: value for name, value in numbers.weights.items() if own[name] != value}
        assert all(math.isclose(value, own[name], rel_tol=2**-8) for name, value in kept.items())
        moments = [s[kind].abs().max().item() for s in optimizer.state.values() for kind in ("exp_avg", "exp_avg_sq")]
        assert sorted(numbers.moments.values()) == sorted(moments)
        with torch.no_grad():
            next(model.parameters()).mul_(3.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 77, 127])
def test_one_bad_element_is_seen_where_it_is(bad: float, place: int):
    model = net()
    meter, optimizer = meter_of(model)
    state = optimizer.state[next(iter(optimizer.state))]
    state["exp_avg"].view(-1)[place] = bad
    numbers = meter.measure(with_spread=False)
    found = [name for name, value in {**numbers.weights, **numbers.moments}.items() if not math.isfinite(value)]
    assert found == ["0.weight (exp_avg)"]
    assert math.isnan(numbers.moments["0.weight (exp_avg)"]) == math.isnan(bad)


def test_an_empty_tensor_has_no_magnitude_also_where_another_was_before():
    model = nn.Module()
    model.a, model.b = nn.Parameter(torch.full((2, 3), -5.0)), nn.Parameter(torch.ones(3, 8))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    meter = StateMeter(model, session._kept)
    assert meter.measure(with_spread=True).weights == {"a": 5.0, "b": 1.0}
    model.b.data = torch.ones(0, 8)
    assert meter.measure(with_spread=True).weights == {"a": 5.0, "b": 0.0}
