"""AdamW and SGD of this package: against torch's, under every keeping, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import Parameter

import mixprec.optim
from mixprec.optim import keep_weights
from mixprec.specs import Moments

KEEPINGS = ("master", "split", "stochastic", "kahan", "true")
MOMENTS = ("fp32", "bf16", "e4m3", "dynamic")

Make = Callable[..., torch.optim.Optimizer]
# Rules with ours and torch's of the same options.
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    "adamw-betas": ("AdamW", {"lr": 1e-3, "betas": (0.8, 0.95), "eps": 1e-5}),
    "adamw-maximize": ("AdamW", {"lr": 1e-3, "maximize": True}),
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd-decay": ("SGD", {"lr": 0.1, "weight_decay": 0.01}),
    "sgd-momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd-dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "sgd-nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
}


def pair(rule: str, **more: Any) -> tuple[Make, Make]:
    name, options = RULES[rule]
    ours, theirs = getattr(mixprec.optim, name), getattr(torch.optim, name)
    return lambda ps: ours(ps, **options, **more), lambda ps: theirs(ps, **options)


def parameters(dtype: torch.dtype = torch.float32) -> list[Parameter]:
    torch.manual_seed(0)
    tensors = [torch.randn(33, 65), torch.randn(7), torch.randn(()), torch.randn(4, 3, 3, 2)]
    tensors[3] = tensors[3].to(memory_format=torch.channels_last)
    return [Parameter(t.to(dtype)) for t in tensors]


def set_gradients(params: list[Parameter], step: int, factor: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(step)
    for p in params:
        p.grad = (torch.randn(p.shape, generator=generator) * factor).to(p.dtype)


def ulp(x: torch.Tensor) -> torch.Tensor:
    """The distance from |x| to the next fp32 number."""
    return torch.nextafter(x.abs(), torch.tensor(torch.inf)) - x.abs()


@pytest.mark.parametrize("rule", RULES)
def test_one_step_is_torchs_within_four_ulp(rule: str) -> None:
    """From equal state: torch's is loaded before each step."""
    ours, theirs = pair(rule)
    params, twins = parameters(), parameters()
    own, other = ours(params), theirs(twins)
    for step in range(4):
        set_gradients(params, step)
        set_gradients(twins, step)
        before = [q.detach().clone() for q in twins]
        own.step()
        other.step()
        for p, q, old in zip(params, twins, before, strict=True):
            scale = torch.maximum(old.abs(), (q - old).abs())
            assert ((p - q).abs() <= 4 * ulp(scale)).all()
            p.data.copy_(q)
        own.load_state_dict(other.state_dict())


@pytest.mark.parametrize("rule", RULES)
def test_trajectories_stay_close_to_torchs(rule: str) -> None:
    ours, theirs = pair(rule)
    params, twins = parameters(), parameters()
    own, other = ours(params), theirs(twins)
    for step in range(100):
        set_gradients(params, step)
        set_gradients(twins, step)
        own.step()
        other.step()
    for p, q in zip(params, twins, strict=True):
        assert torch.allclose(p, q, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("moments", MOMENTS)
@pytest.mark.parametrize("rule", ["adamw", "sgd-momentum"])
def test_master_and_split_are_the_fp32_run_bit_for_bit(rule: str, moments: str) -> None:
    runs = {}
    for kind in ("fp32", "master", "split"):
        params = parameters(torch.bfloat16)
        if kind == "fp32":
            params = [Parameter(p.detach().float()) for p in params]
        kept = keep_weights(
            pair(rule)[0](params), "master" if kind == "fp32" else kind, moments=Moments(kind=moments, small=8)
        )
        for step in range(6):
            set_gradients(params, step)
            for p in params:
                p.grad = p.grad.bfloat16().to(p.dtype)
            kept.apply(0.3)
        runs[kind] = [kept.full_weight(p) for p in params]
    assert all(torch.equal(a, b) for a, b in zip(runs["fp32"], runs["master"], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(runs["fp32"], runs["split"], strict=True))


@pytest.mark.parametrize(
    ("kind", "moments"),
    [*((kind, "fp32") for kind in KEEPINGS), ("kahan", "bf16"), ("split", "e4m3"), ("stochastic", "dynamic")],
)
def test_a_regression_trains_under_every_keeping(kind: str, moments: str) -> None:
    torch.manual_seed(1)
    x = torch.randn(64, 8)
    y = torch.sin(x.sum(1, keepdim=True))
    losses = {}
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(2)
        weights = [Parameter((torch.randn(8, 32) / 3).to(dtype)), Parameter((torch.randn(32, 1) / 6).to(dtype))]
        small = 8 if dtype == torch.bfloat16 else 2**30
        optimizer = mixprec.optim.AdamW(weights, lr=0.01, weights=kind, moments=Moments(kind=moments, small=small))
        for _ in range(120):
            optimizer.zero_grad()
            loss = (torch.tanh(x @ weights[0].float()) @ weights[1].float() - y).square().mean()
            loss.backward()
            optimizer.step()
        losses[dtype] = loss.item()
    assert losses[torch.float32] < 0.1
    allowed = 0.2 if kind == "true" else 0.05
    assert losses[torch.bfloat16] <= losses[torch.float32] + allowed


@pytest.mark.parametrize("rule", ["adamw", "sgd-momentum", "sgd"])
def test_state_has_torchs_names(rule: str) -> None:
    params, twins = parameters(), parameters()
    own, other = (make(ps) for make, ps in zip(pair(rule), (params, twins), strict=True))
    for ps, optimizer in ((params, own), (twins, other)):
        set_gradients(ps, 0)
        optimizer.step()
    for p, q in zip(params, twins, strict=True):
        assert set(own.state[p]) == set(other.state[q]) | {"step"}
        assert own.state[p]["step"].dtype == torch.float32
        assert own.state[p]["step"].shape == ()


def test_extras_and_codes_lie_beside_under_their_names() -> None:
    names = {
        "master": {"master"},
        "split": {"remainder"},
        "kahan": {"compensation"},
        "stochastic": set(),
        "true": set(),
    }
    for kind, extra in names.items():
        (p,) = (Parameter(torch.ones(600, dtype=torch.bfloat16)),)
        optimizer = mixprec.optim.AdamW([p], weights=kind, moments=Moments(kind="e4m3", small=600))
        p.grad = torch.ones_like(p)
        optimizer.step()
        moments = {f"{m}{end}" for m in ("exp_avg", "exp_avg_sq") for end in ("_codes", "_scales", "_powers")}
        assert set(optimizer.state[p]) == {"step"} | moments | extra
        assert optimizer.state[p]["exp_avg_codes"].dtype == torch.uint8
        assert optimizer.state[p]["exp_avg_scales"].shape == (3,)


def test_tensors_below_small_keep_fp32_moments() -> None:
    large, small = Parameter(torch.ones(64)), Parameter(torch.ones(63))
    optimizer = mixprec.optim.SGD([large, small], momentum=0.9, moments=Moments(kind="dynamic", small=64))
    for p in (large, small):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert optimizer.state[large]["momentum_buffer_codes"].dtype == torch.uint8
    assert optimizer.state[small]["momentum_buffer"].dtype == torch.float32


def test_groups_may_be_kept_each_in_its_own_way() -> None:
    first, second = (Parameter(torch.ones(512, dtype=torch.bfloat16)) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "weights": "split", "moments": Moments(kind="bf16", small=0)}]
    optimizer = mixprec.optim.AdamW(groups)
    kept = keep_weights(optimizer, "kahan", moments=Moments(kind="dynamic", small=0))
    for p in (first, second):
        p.grad = torch.ones_like(p)
    kept.apply(1.0)
    assert {"compensation", "exp_avg_scales"} <= set(optimizer.state[first])
    assert set(optimizer.state[second]) == {"step", "remainder", "exp_avg", "exp_avg_sq"}
    assert optimizer.state[second]["exp_avg"].dtype == torch.bfloat16


def test_a_session_converts_what_an_undecided_optimizer_has_kept() -> None:
    p = Parameter(torch.ones(512, dtype=torch.bfloat16))
    optimizer = mixprec.optim.AdamW([p], lr=1e-3)
    p.grad = torch.full_like(p, 0.5)
    optimizer.step()
    master = optimizer.state[p]["master"].clone()
    kept = keep_weights(optimizer, "split", moments=Moments(kind="bf16", small=0))
    assert torch.equal(kept.full_weight(p), master)
    assert set(kept.extras()[p]) == {"remainder"}
    assert "master" not in optimizer.state[p]
    assert kept.moments()[p]["exp_avg"].dtype == torch.bfloat16
    assert kept.moments()[p]["exp_avg"].tolist() == [pytest.approx(0.05, rel=2.0**-8)] * 512


def test_learning_rates_may_be_tensors_and_schedules_count_steps() -> None:
    params, twins = parameters(), parameters()
    own = mixprec.optim.SGD(params, lr=torch.tensor(0.125))
    other = mixprec.optim.SGD(twins, lr=0.25)
    schedule = torch.optim.lr_scheduler.StepLR(other, 1, gamma=0.5)
    set_gradients(twins, 0, 0.0)
    keep_weights(other, "master").apply(1.0)
    schedule.step()  # a warning, were the step not seen, is an error here
    for ps, optimizer in ((params, own), (twins, other)):
        set_gradients(ps, 1)
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(params, twins, strict=True))


def test_closures_and_hooks_work_as_torchs() -> None:
    p = Parameter(torch.ones(2))
    optimizer = mixprec.optim.SGD([p], lr=0.5)
    seen: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = p.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == [0.5, 0.5]
    assert seen == ["before", "after"]


@pytest.mark.parametrize("kind", KEEPINGS)
def test_parameters_without_gradients_are_left_as_they_are(kind: str) -> None:
    still, moving = (Parameter(torch.ones(4, dtype=torch.bfloat16)) for _ in range(2))
    optimizer = mixprec.optim.AdamW([still, moving], lr=0.1, weights=kind)
    optimizer.step()
    assert not optimizer.state
    moving.grad = torch.ones_like(moving)
    optimizer.step()
    assert still.tolist() == [1.0] * 4
    assert list(optimizer.state) == [moving]
    still.grad = torch.ones_like(still)
    optimizer.step()
    assert (optimizer.state[still]["step"], optimizer.state[moving]["step"]) == (1, 2)
    if kind == "master":
        twin = Parameter(torch.ones(4))
        alone = mixprec.optim.AdamW([twin], lr=0.1)
        twin.grad = torch.ones_like(twin)
        alone.step()
        assert torch.equal(optimizer.state[still]["master"], twin)


def test_empty_parameters_and_added_groups() -> None:
    empty, late = Parameter(torch.zeros(0, 3)), Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = mixprec.optim.AdamW([empty], lr=0.1)
    kept = keep_weights(optimizer, "split")
    optimizer.add_param_group({"params": [late], "lr": 1e-3})
    for p in (empty, late):
        p.grad = torch.ones_like(p)
    kept.begin_backward()
    kept.apply(1.0)
    assert optimizer.state[late]["remainder"].dtype == torch.int16
    assert kept.full_weight(late).tolist() == [pytest.approx(0.99899, abs=1e-6)] * 2


def test_a_weight_written_from_outside_is_followed() -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = mixprec.optim.SGD([p], lr=1e-3)
    p.grad = torch.ones_like(p)
    optimizer.step()
    with torch.no_grad():
        p.copy_(torch.tensor([3.0, 1.0]))
    optimizer.step()
    assert optimizer.state[p]["master"].tolist() == [pytest.approx(2.999), pytest.approx(0.998)]


@pytest.mark.parametrize("kind", KEEPINGS)
def test_copies_and_pickles_go_on_alike(kind: str) -> None:
    model = nn.Linear(30, 20).bfloat16()
    optimizer = mixprec.optim.AdamW(
        model.parameters(), lr=0.01, weights=kind, moments=Moments(kind="bf16", small=8), seed=4
    )
    set_gradients(list(model.parameters()), 0)
    optimizer.step()
    both = (model, optimizer)
    runs = [both, copy.deepcopy(both), pickle.loads(pickle.dumps(both))]
    for step in (1, 2):
        for twin, other in runs:
            set_gradients(list(twin.parameters()), step)
            other.step()
    for twin, _ in runs[1:]:
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


def test_what_is_not_offered_is_refused_in_words() -> None:
    p = Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=r"AdamW has no amsgrad=True: .* use torch.optim.AdamW"):
        mixprec.optim.AdamW([p], amsgrad=True)
    with pytest.raises(ValueError, match=r"SGD has no foreach=True: .* leave it out"):
        mixprec.optim.SGD([p], foreach=True)
    mixprec.optim.AdamW([p], amsgrad=False, fused=True, foreach=None, capturable=False, differentiable=False)
    with pytest.raises(TypeError, match="amsgra"):
        mixprec.optim.AdamW([p], amsgra=False)
    for options, told in (
        ({"lr": -1.0}, "lr is -1.0"),
        ({"eps": 1e-50}, "eps is 1e-50, which is 0 in fp32"),
        ({"betas": (0.9, 1.0)}, "betas are"),
        ({"weights": "sliced"}, "sliced"),
        ({"moments": "fp8"}, "fp8"),
        ({"lr": torch.ones(2)}, r"lr is a tensor of shape \[2\]"),
    ):
        with pytest.raises(ValueError, match=told):
            mixprec.optim.AdamW([p], **options)
    with pytest.raises(ValueError, match="nesterov with momentum"):
        mixprec.optim.SGD([p], nesterov=True)


def test_parameters_and_gradients_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"takes fp32, bf16 and fp16 parameters, got torch.float64 .* torch.optim.AdamW"
    ):
        mixprec.optim.AdamW([Parameter(torch.ones(2, dtype=torch.float64))])
    with pytest.raises(ValueError, match="weights='split' keeps bf16 parameters"):
        mixprec.optim.AdamW([Parameter(torch.ones(2, dtype=torch.float16))], weights="split")
    table, other = Parameter(torch.ones(4, 2)), Parameter(torch.ones(2))
    optimizer = mixprec.optim.SGD([other, table], momentum=0.9, dampening=0.5)
    other.grad = torch.ones(2)
    table.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (4, 2), check_invariants=True)
    with pytest.raises(
        ValueError, match=r"shape \[4, 2\] has a gradient of torch.sparse_coo .* torch.optim.SparseAdam"
    ):
        optimizer.step()
    assert other.tolist() == [1.0, 1.0]
    assert not optimizer.state


def test_sharded_parameters_are_refused() -> None:
    class Sharded(Parameter):
        device_mesh = "a mesh"

    with pytest.raises(ValueError, match=r"mixprec.optim.AdamW does not take sharded .* use torch.optim.AdamW"):
        mixprec.optim.AdamW([Sharded(torch.ones(2))])
    with pytest.raises(ValueError, match=r"weights='split' does not take sharded .* use weights='master'"):
        keep_weights(torch.optim.SGD([Sharded(torch.ones(2, dtype=torch.bfloat16))], lr=1.0), "split")


def test_zeros_written_through_data_are_zeros_under_split() -> None:
    torch.manual_seed(0)
    params = [Parameter(torch.randn(64).bfloat16())]
    optimizer = mixprec.optim.AdamW(params, lr=1e-3, weights="split")
    for _ in range(6):
        params[0].data.clamp_(min=0)
        params[0].grad = torch.randn(64).bfloat16()
        optimizer.step()
        assert params[0].isfinite().all()
    params[0].data.zero_()
    with torch.no_grad():
        params[0].add_(0.0)  # an ordinary write: now it is looked for
    optimizer.adopt_writes()
    assert (optimizer.state[params[0]]["remainder"] >= 0).all()
