"""States of this package's optimizers: nothing is cast on load, and what was kept otherwise is refused or converted."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch.nn import Parameter

import mixprec.optim
from mixprec.optim import keep_weights
from mixprec.specs import Moments

KEEPINGS = ("master", "split", "stochastic", "kahan", "true")


def build(kind: str | None, moments: str = "fp32", *, name: str = "AdamW", start: list[Parameter] | None = None) -> Any:
    """Two 16-bit parameters and one of fp32, and an optimizer over them in two groups."""
    torch.manual_seed(0)
    shapes = [(20, 30), (5,), (300,)]
    made = [Parameter(torch.randn(shape).bfloat16()) for shape in shapes[:2]] + [Parameter(torch.randn(shapes[2]))]
    if start is not None:
        for p, q in zip(made, start, strict=True):
            p.data.copy_(q)
    kept = Moments(kind=moments, small=100)
    options = {"lr": 0.01} if name == "AdamW" else {"lr": 0.01, "momentum": 0.9}
    make = getattr(mixprec.optim, name)
    return made, make([{"params": made[:2]}, {"params": made[2:], "lr": 0.02}], weights=kind, moments=kept, **options)


def take_steps(params: list[Parameter], optimizer: torch.optim.Optimizer, first: int, count: int) -> None:
    for step in range(first, first + count):
        generator = torch.Generator().manual_seed(step)
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()


def saved(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def assert_equal_states(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a["param_groups"] == b["param_groups"]
    assert a["state"].keys() == b["state"].keys()
    for key, state in a["state"].items():
        assert state.keys() == b["state"][key].keys()
        for name, value in state.items():
            assert value.dtype == b["state"][key][name].dtype
            assert torch.equal(value, b["state"][key][name])


@pytest.mark.parametrize("order", ["weights first", "state first"])
@pytest.mark.parametrize("moments", ["fp32", "bf16", "e4m3", "dynamic"])
@pytest.mark.parametrize("kind", KEEPINGS)
def test_a_resumed_run_is_the_run_that_went_on(kind: str, moments: str, order: str) -> None:
    params, optimizer = build(kind, moments)
    take_steps(params, optimizer, 0, 3)
    state, weights = saved(optimizer), [p.detach().clone() for p in params]
    again, other = build(kind, moments, start=params if order == "weights first" else None)
    other.load_state_dict(state)
    assert_equal_states(other.state_dict(), state)
    if order == "state first":
        with torch.no_grad():
            for p, value in zip(again, weights, strict=True):
                p.copy_(value)
    take_steps(params, optimizer, 3, 2)
    take_steps(again, other, 3, 2)
    assert all(torch.equal(p, q) for p, q in zip(params, again, strict=True))
    assert_equal_states(optimizer.state_dict(), other.state_dict())


def test_loading_copies_the_state() -> None:
    params, optimizer = build("master")
    take_steps(params, optimizer, 0, 1)
    state = optimizer.state_dict()
    before = copy.deepcopy(state)
    again, other = build("master", start=params)
    other.load_state_dict(state)
    take_steps(again, other, 1, 1)
    assert_equal_states(state, before)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_torchs_state_of_the_same_parameters_loads(name: str) -> None:
    """Equal to the run that torch would have gone on with, and back again."""
    torch.manual_seed(0)
    twins = [Parameter(torch.randn(20, 30)), Parameter(torch.randn(5))]
    options = {"lr": 0.01} if name == "AdamW" else {"lr": 0.01, "momentum": 0.9}
    theirs = getattr(torch.optim, name)(twins, **options)
    take_steps(twins, theirs, 0, 3)
    params = [Parameter(p.detach().clone()) for p in twins]
    ours = getattr(mixprec.optim, name)(params, lr=1.0, momentum=0.5) if name == "SGD" else mixprec.optim.AdamW(params)
    ours.load_state_dict(saved(theirs))
    assert ours.param_groups[0]["lr"] == 0.01
    take_steps(twins, theirs, 3, 3)
    take_steps(params, ours, 3, 3)
    assert all(torch.allclose(p, q, rtol=1e-6, atol=1e-7) for p, q in zip(params, twins, strict=True))
    back = [Parameter(p.detach().clone()) for p in params]
    again = getattr(torch.optim, name)(back, **options)
    again.load_state_dict(saved(ours))
    take_steps(back, again, 6, 1)
    take_steps(params, ours, 6, 1)
    assert all(torch.allclose(p, q, rtol=1e-6, atol=1e-7) for p, q in zip(params, back, strict=True))


def test_torchs_optimizer_does_not_take_codes_for_numbers() -> None:
    params, optimizer = build("true", "e4m3")
    take_steps(params, optimizer, 0, 1)
    theirs = torch.optim.AdamW([{"params": params[:2]}, {"params": params[2:]}])
    theirs.load_state_dict(optimizer.state_dict())
    with pytest.raises(KeyError, match="exp_avg"):
        theirs.step()


def test_torchs_16_bit_moments_become_fp32_exactly() -> None:
    twins = [Parameter(torch.ones(6, dtype=torch.bfloat16))]
    theirs = torch.optim.AdamW(twins, lr=0.01)
    take_steps(twins, theirs, 0, 2)
    params = [Parameter(p.detach().clone()) for p in twins]
    ours = mixprec.optim.AdamW(params, weights="split")
    ours.load_state_dict(theirs.state_dict())
    assert ours.state[params[0]]["exp_avg"].dtype == torch.float32
    assert torch.equal(ours.state[params[0]]["exp_avg"], theirs.state[twins[0]]["exp_avg"].float())
    with pytest.raises(ValueError, match=r"moments as bf16, here as dynamic \(block 256\) \(first in parameter 0\)"):
        mixprec.optim.AdamW(params, moments=Moments(kind="dynamic", small=0)).load_state_dict(theirs.state_dict())


@pytest.mark.parametrize("new", ["master", "split", "kahan", "stochastic", "true"])
@pytest.mark.parametrize("old", KEEPINGS)
def test_a_state_kept_otherwise_is_refused_and_converted(old: str, new: str) -> None:
    params, optimizer = build(old, "bf16")
    take_steps(params, optimizer, 0, 3)
    full = [keep_weights(optimizer, "master").full_weight(p) for p in params]
    again, other = build(new, "fp32", start=params)
    state = saved(optimizer)
    with pytest.raises(ValueError, match=r"kept otherwise: .*moments as bf16, here as fp32 .*convert=True"):
        other.load_state_dict(state)
    assert not other.state
    other.load_state_dict(state, convert=True)
    kept = keep_weights(other, "master")
    for p, value in zip(again, full, strict=True):
        tolerance = {"master": 0.0, "split": 0.0, "kahan": 2.0**-16}.get(new, 2.0**-8)
        assert ((kept.full_weight(p) - value).abs() <= tolerance * value.abs()).all()
    moments = optimizer.state[params[0]]["exp_avg"]
    assert torch.equal(other.state[again[0]]["exp_avg"], moments.float())
    assert other.state[again[0]]["step"] == 3
    take_steps(again, other, 3, 1)


def test_the_refusal_says_what_differs() -> None:
    params, optimizer = build("split", "e4m3")
    take_steps(params, optimizer, 0, 1)
    _, other = build("master")
    told = r"moments as e4m3 .*, here as fp32 .*; weights as split, here as fp32 masters \(first in parameter 0\)"
    with pytest.raises(ValueError, match=told):
        other.load_state_dict(optimizer.state_dict())


def test_what_is_no_state_of_these_parameters_is_refused() -> None:
    params, optimizer = build("master")
    take_steps(params, optimizer, 0, 1)
    state = optimizer.state_dict()
    few = mixprec.optim.AdamW([Parameter(torch.ones(2))])
    with pytest.raises(ValueError, match=r"groups with \[2, 1\] parameters, this optimizer has \[1\]"):
        few.load_state_dict(state)
    _, other = build("master")
    broken = copy.deepcopy(state)
    broken["state"][1]["exp_avg"] = torch.zeros(4)
    told = r"parameter 1 does not fit .* exp_avg is torch.float32 \[4\], expected .* \[5\]"
    with pytest.raises(ValueError, match=told):
        other.load_state_dict(broken)
    assert not other.state
    adam = torch.optim.Adam([Parameter(torch.ones(2))], weight_decay=0.1)
    with pytest.raises(ValueError, match=r"torch.optim.Adam with weight_decay=0.1"):
        few.load_state_dict(adam.state_dict())
    grad = torch.optim.AdamW([Parameter(torch.ones(2))], amsgrad=True)
    with pytest.raises(ValueError, match=r"has no amsgrad=True"):
        few.load_state_dict(grad.state_dict())


@pytest.mark.parametrize("old", ["master", "split", "kahan"])
def test_a_state_of_16_bit_weights_is_converted_to_fp32_ones(old: str) -> None:
    params, optimizer = build(old)
    take_steps(params, optimizer, 0, 3)
    full = [keep_weights(optimizer, "master").full_weight(p) for p in params]
    wide = [Parameter(p.detach().float()) for p in params]
    groups = [{"params": wide[:2]}, {"params": wide[2:], "lr": 0.02}]
    other = mixprec.optim.AdamW(groups, lr=0.01, moments=Moments(small=100))
    with pytest.raises(ValueError, match=r"here as they are .*convert=True"):
        other.load_state_dict(saved(optimizer))
    other.load_state_dict(saved(optimizer), convert=True)
    assert all(torch.equal(p, value) for p, value in zip(wide, full, strict=True))
    assert all(set(other.state[p]) == {"exp_avg", "exp_avg_sq", "step"} for p in wide)
    assert torch.equal(other.state[wide[0]]["exp_avg"], optimizer.state[params[0]]["exp_avg"])
    take_steps(wide, other, 3, 1)


def test_a_state_whose_keys_became_text_is_refused() -> None:
    params, optimizer = build("master")
    take_steps(params, optimizer, 0, 1)
    state = optimizer.state_dict()
    as_text = {**state, "state": {str(key): value for key, value in state["state"].items()}}
    _, other = build("master")
    with pytest.raises(ValueError, match=r"under '0', '1', '2', .* are 0, 1, 2, .*int\(key\)"):
        other.load_state_dict(as_text)
    assert not other.state
    foreign = {**state, "state": {**state["state"], 7: {}}}
    with pytest.raises(ValueError, match=r"under 7, .*another optimizer"):
        other.load_state_dict(foreign)
