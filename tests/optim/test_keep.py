"""Masters in an optimizer: what moves, what rounds, and the way back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import Parameter

from mixprec.optim import keep_weights

OPTIMIZERS = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.01, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adamw-fused": lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.01),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01, centered=True),
    "adafactor": lambda ps: torch.optim.Adafactor(ps, lr=0.01),
}


def parameters(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return [Parameter(torch.randn(3, 4).to(dtype)), Parameter(torch.randn(4)), Parameter(torch.randn(()).to(dtype))]


def set_gradients(params):
    for i, p in enumerate(params):
        p.grad = torch.full_like(p, 0.125 * (i + 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masters_follow_an_fp32_run_and_weights_are_their_rounding(name, dtype):
    params = parameters(dtype)
    plain = [Parameter(p.detach().float()) for p in params]
    optimizer, reference = OPTIMIZERS[name](params), OPTIMIZERS[name](plain)
    kept = keep_weights(optimizer, "master")
    for _ in range(5):
        set_gradients(params)
        set_gradients(plain)
        kept.widen_gradients()
        optimizer.step()
        kept.write_back()
        kept.clear_gradients()
        reference.step()
    for p, master, q in zip(params, optimizer.param_groups[0]["params"], plain, strict=True):
        assert torch.equal(master, q)
        assert torch.equal(p, q.to(p.dtype))
        assert p.grad is None


def test_fp32_and_fp64_parameters_are_untouched_and_order_is_kept():
    params = [*parameters(), Parameter(torch.ones(2, dtype=torch.float64))]
    optimizer = torch.optim.SGD([{"params": params[:2], "lr": 0.5}, {"params": params[2:]}], lr=0.1)
    groups = [id(g) for g in optimizer.param_groups]
    kept = keep_weights(optimizer, "master")
    first, second = (g["params"] for g in optimizer.param_groups)
    assert [id(g) for g in optimizer.param_groups] == groups
    assert first[0] is kept.pairs[params[0]].master
    assert first[1] is params[1]
    assert second[0] is kept.pairs[params[2]].master
    assert second[1] is params[3]
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]


def test_state_moves_along_both_ways():
    params = parameters()
    optimizer = torch.optim.Adam(params, lr=0.01)
    set_gradients(params)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    kept = keep_weights(optimizer, "master")
    master = kept.pairs[params[0]].master
    assert optimizer.state[master]["exp_avg"].dtype == torch.float32
    assert optimizer.state[master]["step"] == 1
    assert params[0] not in optimizer.state
    kept.restore()
    after = optimizer.state_dict()
    assert all(a is b for a, b in zip(optimizer.param_groups[0]["params"], params, strict=True))
    for index, state in before["state"].items():
        for key, value in state.items():
            assert torch.equal(after["state"][index][key], value)
            assert after["state"][index][key].dtype == value.dtype


def test_gradients_of_several_backward_passes_add_up_in_fp32():
    p = Parameter(torch.ones(1, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "master")
    for factor in (256.0, 1.0, 1.0):
        kept.begin_backward()
        (p * factor).sum().backward()
        kept.widen_gradients()
    assert kept.pairs[p].master.grad.item() == 258.0  # bf16 sums would stay at 256
    assert p.grad is kept.pairs[p].master.grad


@pytest.mark.parametrize("clear", ["optimizer", "model"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_gradient_cleared_on_one_side_is_cleared_on_both(clear, set_to_none):
    p = Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([p], lr=1.0)
    kept = keep_weights(optimizer, "master")
    (p * 2).sum().backward()
    kept.widen_gradients()
    if clear == "optimizer":
        optimizer.zero_grad(set_to_none=set_to_none)
    elif set_to_none:
        p.grad = None
    else:
        p.grad.zero_()
    kept.begin_backward()
    (p * 3).sum().backward()
    kept.widen_gradients()
    assert kept.pairs[p].master.grad.item() == 3.0


def test_a_weight_written_from_outside_is_taken_over_and_others_keep_their_low_bits():
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([p], lr=1e-3)
    kept = keep_weights(optimizer, "master")
    p.grad = torch.ones(2)
    kept.widen_gradients()
    optimizer.step()
    kept.write_back()
    assert kept.adopt_writes() == []
    with torch.no_grad():
        p.copy_(torch.tensor([5.0, 1.0]))
    assert [q is p for q in kept.adopt_writes()] == [True]
    assert kept.pairs[p].master.tolist() == [5.0, pytest.approx(0.999)]
    with torch.no_grad():
        p.copy_(p.clone())
    assert kept.adopt_writes() == []


def test_restore_gives_gradients_back_in_the_parameters_dtype():
    p = Parameter(torch.ones(2, dtype=torch.float16))
    kept = keep_weights(torch.optim.SGD([p], lr=1e-3), "master")
    (p * 2).sum().backward()
    kept.widen_gradients()
    kept.restore()
    assert p.grad.dtype == torch.float16
    (p * 2).sum().backward()
    assert p.grad.tolist() == [4.0, 4.0]
    kept.restore()


def test_a_gradient_that_is_there_already_is_kept():
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    (p * 2).sum().backward()
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "master")
    assert kept.pairs[p].master.grad.tolist() == [2.0, 2.0]


def test_true_keeps_weights_as_they_are():
    params = parameters()
    optimizer = torch.optim.SGD(params, lr=0.1)
    kept = keep_weights(optimizer, "true")
    assert not kept.pairs
    assert all(a is b for a, b in zip(optimizer.param_groups[0]["params"], params, strict=True))
