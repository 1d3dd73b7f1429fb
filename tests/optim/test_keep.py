"""How weights are kept under any optimizer: substitution, gradients, writes from outside, extras, and the way back."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

import mixprec.optim
from mixprec import kernels
from mixprec.optim import keep_weights
from mixprec.specs import Moments

from .optimizers import Lookahead

KEEPINGS = ("master", "split", "stochastic", "kahan", "true")
SUBSTITUTING = KEEPINGS[:-1]


def parameters(dtype: torch.dtype = torch.bfloat16) -> list[Parameter]:
    torch.manual_seed(0)
    return [Parameter(torch.randn(3, 4).to(dtype)), Parameter(torch.randn(4)), Parameter(torch.randn(()).to(dtype))]


def set_gradients(params: list[Parameter]) -> None:
    for i, p in enumerate(params):
        p.grad = torch.full_like(p, 0.125 * (i + 1))


def held(optimizer: Optimizer) -> list[Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


@pytest.mark.parametrize("kind", SUBSTITUTING)
def test_wide_parameters_are_untouched_and_order_is_kept(kind: str) -> None:
    params = [*parameters(), Parameter(torch.ones(2, dtype=torch.float64))]
    optimizer = torch.optim.SGD([{"params": params[:2], "lr": 0.5}, {"params": params[2:]}], lr=0.1)
    groups = [id(g) for g in optimizer.param_groups]
    kept = keep_weights(optimizer, kind)
    assert [id(g) for g in optimizer.param_groups] == groups
    assert [p.dtype for p in held(optimizer)] == [torch.float32] * 3 + [torch.float64]
    assert [p.shape for p in held(optimizer)] == [p.shape for p in params]
    assert held(optimizer)[1] is params[1]
    assert held(optimizer)[3] is params[3]
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    assert all(a is b for a, b in zip(kept.parameters(), params, strict=True))


def test_true_keeps_weights_as_they_are() -> None:
    params = parameters()
    optimizer = torch.optim.SGD(params, lr=0.1)
    kept = keep_weights(optimizer, "true")
    assert all(a is b for a, b in zip(held(optimizer), params, strict=True))
    assert not kept.extras()
    set_gradients(params)
    expected = [p.detach() - 0.1 * p.grad for p in params]
    kept.apply(1.0)
    assert all(torch.equal(p, q) for p, q in zip(params, expected, strict=True))


@pytest.mark.parametrize("kind", SUBSTITUTING)
def test_state_moves_along_both_ways(kind: str) -> None:
    params = parameters()
    optimizer = torch.optim.Adam(params, lr=0.01)
    set_gradients(params)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    kept = keep_weights(optimizer, kind)
    moved = optimizer.state[held(optimizer)[0]]
    assert moved["exp_avg"].dtype == torch.float32
    assert moved["step"] == 1
    assert params[0] not in optimizer.state
    assert {k for m in kept.moments().values() for k in m} == {"exp_avg", "exp_avg_sq"}
    assert list(kept.moments()[params[0]]) == ["exp_avg", "exp_avg_sq"]
    kept.restore()
    after = optimizer.state_dict()
    assert all(a is b for a, b in zip(held(optimizer), params, strict=True))
    for index, state in before["state"].items():
        for key, value in state.items():
            assert torch.equal(after["state"][index][key], value)
            assert after["state"][index][key].dtype == value.dtype


@pytest.mark.parametrize("kind", KEEPINGS)
def test_gradients_of_several_backward_passes_add_up_in_fp32(kind: str) -> None:
    p = Parameter(torch.ones(1, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), kind)
    kept.begin_backward()
    (p * 256.0).sum().backward()
    assert kept.gradients()[p].dtype == torch.bfloat16
    for _ in range(2):
        kept.begin_backward()
        p.sum().backward()
    assert kept.gradients()[p].tolist() == [258.0]  # bf16 sums would stay at 256
    assert kept.gradients()[p] is p.grad


@pytest.mark.parametrize("kind", ["master", "split"])
def test_the_factor_is_multiplied_in_once_in_fp32(kind: str) -> None:
    p, wide = Parameter(torch.zeros(3, dtype=torch.bfloat16)), Parameter(torch.zeros(3))
    kept = keep_weights(torch.optim.SGD([p, wide], lr=1.0), kind)
    p.grad, wide.grad = torch.tensor([3.0, 5.0, 7.0]).bfloat16(), torch.tensor([3.0, 5.0, 7.0])
    kept.apply(0.1)
    expected = -(torch.tensor([3.0, 5.0, 7.0]) * torch.tensor(0.1))
    assert torch.equal(kept.full_weight(p), expected)
    assert torch.equal(wide, expected)


@pytest.mark.parametrize("kind", ["master", "stochastic"])
@pytest.mark.parametrize("clear", ["optimizer", "model", "handle"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_gradient_cleared_on_one_side_is_cleared_on_both(kind: str, clear: str, set_to_none: bool) -> None:
    p = Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([p], lr=1.0)
    kept = keep_weights(optimizer, kind)
    (p * 2).sum().backward()  # no handle told
    if clear == "optimizer":
        optimizer.zero_grad(set_to_none=set_to_none)
    elif clear == "handle":
        kept.clear_gradients(set_to_none=set_to_none)
    elif set_to_none:
        p.grad = None
    else:
        p.grad.zero_()
    kept.begin_backward()
    assert p.grad is None or p.grad.item() == 0
    (p * 3).sum().backward()
    assert kept.gradients()[p].item() == 3.0


def test_a_gradient_that_nobody_told_is_not_lost() -> None:
    p = Parameter(torch.ones(1, dtype=torch.bfloat16), requires_grad=False)
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "master")
    p.grad = torch.full((1,), 2.0)
    kept.begin_backward()
    assert kept.gradients()[p].item() == 2.0


def test_a_gradient_that_is_there_already_is_kept() -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    (p * 2).sum().backward()
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "master")
    assert kept.gradients()[p].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("kind", ["master", "kahan"])
def test_a_weight_written_from_outside_is_taken_over_and_others_keep_their_low_bits(kind: str) -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1e-3), kind)
    p.grad = torch.ones(2)
    kept.apply(1.0)
    assert kept.adopt_writes() == []
    with torch.no_grad():
        p.copy_(torch.tensor([0.0, 1.0]))
    assert [q is p for q in kept.adopt_writes()] == [True]
    assert kept.full_weight(p).tolist() == [0.0, pytest.approx(0.999, abs=1e-5)]
    with torch.no_grad():
        p.copy_(p.clone())
    assert kept.adopt_writes() == []


def test_a_split_weight_written_from_outside_is_within_its_rounding() -> None:
    p = Parameter(torch.ones(3, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1e-3), "split")
    p.grad = torch.ones(3)
    kept.apply(1.0)
    with torch.no_grad():
        p.copy_(torch.tensor([5.0, 0.0, torch.inf]))
    kept.adopt_writes()
    assert torch.equal(kept.full_weight(p).bfloat16(), p)
    with torch.no_grad():
        p.fill_(torch.nan)
    kept.adopt_writes()
    assert kept.full_weight(p).isnan().all()


def test_an_optimizer_that_writes_the_models_own_parameter_is_told() -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))

    class Clamping(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure: object = None) -> None:
            super().step()
            p.clamp_(-0.5, 0.5)

    kept = keep_weights(Clamping([p], lr=0.1), "master")
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"Clamping.step\(\) wrote to the model's own .* shape \[2\]"):
        kept.apply(1.0)


@pytest.mark.parametrize("kind", ["split", "stochastic", "kahan"])
def test_between_steps_the_master_takes_four_bytes_and_is_nan(kind: str) -> None:
    p = Parameter(torch.ones(1000, dtype=torch.bfloat16))
    optimizer = torch.optim.Adam([p], lr=1e-3)
    kept = keep_weights(optimizer, kind)
    p.grad = torch.ones_like(p)
    kept.apply(1.0)
    (master,) = held(optimizer)
    assert master.shape == p.shape
    assert master.untyped_storage().nbytes() == 4
    assert master.isnan().all()
    assert sum(t.nbytes for t in kept.extras().get(p, {}).values()) == {"stochastic": 0}.get(kind, 2000)
    assert optimizer.state[master]["exp_avg"].tolist() == [pytest.approx(0.1)] * 1000


def test_stochastic_rounding_is_that_of_the_kernel_and_depends_on_seed_step_and_place() -> None:
    draws = []
    for seed, step, place in ((1, 5, 0), (1, 5, 1), (1, 6, 0), (2, 5, 0), (1, 5, 0)):
        params = [Parameter(torch.ones(512, dtype=torch.bfloat16)) for _ in range(2)]
        kept = keep_weights(torch.optim.SGD(params, lr=1.0), "stochastic", seed=seed)
        kept.applied = step
        params[place].grad = torch.full((512,), 1e-3)
        kept.apply(1.0)
        assert kept.applied == step + 1
        low, high = 1 - 2.0**-8, 1.0
        assert set(params[place].tolist()) == {low, high}
        assert (params[place] == low).float().mean().item() == pytest.approx(1e-3 * 2**8, abs=0.08)
        draws.append(params[place].detach().clone())
    assert torch.equal(draws[0], draws[4])
    assert not any(torch.equal(draws[0], other) for other in draws[1:4])


def test_the_mean_of_stochastic_weights_is_the_fp32_weight() -> None:
    p = Parameter(torch.ones(4096, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "stochastic")
    for _ in range(100):
        p.grad = torch.full((4096,), 1e-4)
        kept.apply(1.0)
    assert p.mean(dtype=torch.float64).item() == pytest.approx(0.99, abs=3 * 2.0**-8 / 64)


@pytest.mark.parametrize("kind", SUBSTITUTING)
def test_full_weights_and_extras_come_and_go(kind: str) -> None:
    value = torch.randn(64, generator=torch.Generator().manual_seed(3))
    p, q = (Parameter(torch.zeros(64, dtype=torch.bfloat16)) for _ in range(2))
    kept, other = (keep_weights(torch.optim.SGD([x], lr=1.0), kind) for x in (p, q))
    kept.load_full_weight(p, value)
    if kind in ("master", "split"):
        assert torch.equal(kept.full_weight(p), value)
    else:
        assert (kept.full_weight(p) - value).abs().max() <= {"kahan": 2.0**-16, "stochastic": 2.0**-8}[kind] * 4
    assert (p - value).abs().max() <= 2.0**-8 * 4
    with torch.no_grad():
        q.copy_(p)
    other.load_extras(q, kept.extras().get(p, {}))
    assert other.adopt_writes() == []
    assert torch.equal(other.full_weight(q), kept.full_weight(p))
    assert torch.equal(p, q)


def test_extras_of_another_keeping_are_refused() -> None:
    p = Parameter(torch.zeros(4, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "split")
    with pytest.raises(ValueError, match=r"is remainder \(torch.int16 \[4\]\), got master \(torch.float32 \[4\]\)"):
        kept.load_extras(p, {"master": torch.zeros(4)})
    with pytest.raises(ValueError, match=r"got remainder \(torch.int16 \[3\]\)"):
        kept.load_extras(p, {"remainder": torch.zeros(3, dtype=torch.int16)})
    plain = keep_weights(torch.optim.SGD([p], lr=1.0), "true")
    with pytest.raises(ValueError, match="kept without extras here, got master"):
        plain.load_extras(p, {"master": torch.zeros(4)})


@pytest.mark.parametrize("kind", SUBSTITUTING)
def test_parameters_that_are_added_later_are_kept_too(kind: str) -> None:
    first, second = (Parameter(torch.ones(2, dtype=torch.bfloat16)) for _ in range(2))
    optimizer = torch.optim.SGD([first], lr=1e-3)
    kept = keep_weights(optimizer, kind)
    optimizer.add_param_group({"params": [second]})
    second.grad = torch.ones(2, dtype=torch.bfloat16)
    kept.apply(1.0)
    assert all(a is b for a, b in zip(kept.parameters(), [first, second], strict=True))
    if kind in ("master", "split"):
        assert kept.full_weight(second).tolist() == [pytest.approx(0.999, abs=1e-7)] * 2


def test_a_wrapped_optimizer_with_a_state_is_substituted_too() -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    inner = torch.optim.Adam([p], lr=1e-3)
    optimizer = Lookahead(inner, every=1)
    p.grad = torch.ones_like(p)
    optimizer.step()
    kept = keep_weights(optimizer, "split")
    for _ in range(3):
        p.grad = torch.ones_like(p)
        kept.apply(1.0)
    (master,) = inner.param_groups[0]["params"]
    assert list(inner.state) == [master]
    assert inner.state[master]["step"] == 4
    assert list(optimizer.state) == [master]
    assert optimizer.state[master]["slow"].dtype == torch.float32


def test_sparse_complex_and_double_gradients_work_as_the_optimizer_takes_them() -> None:
    table = Parameter(torch.ones(4, 2, dtype=torch.bfloat16))
    double = Parameter(torch.ones(2, dtype=torch.float64))
    wave = Parameter(torch.ones(2, dtype=torch.complex64))
    kept = keep_weights(torch.optim.SGD([table, double, wave], lr=0.5), "split")
    indices = torch.tensor([[1, 1]])
    table.grad = torch.sparse_coo_tensor(indices, torch.ones(2, 2, dtype=torch.bfloat16), (4, 2), check_invariants=True)
    double.grad, wave.grad = torch.ones(2, dtype=torch.float64), torch.full((2,), 1 + 2j)
    kept.apply(0.1)
    assert kept.full_weight(table)[1].tolist() == [pytest.approx(0.9)] * 2
    assert kept.full_weight(table)[0].tolist() == [1.0, 1.0]
    assert kept.full_weight(double).tolist() == [0.95, 0.95]
    assert kept.full_weight(double).dtype == torch.float64
    assert wave.tolist() == [pytest.approx(0.95 - 0.1j)] * 2


@pytest.mark.parametrize("kind", SUBSTITUTING)
def test_no_gradients_change_nothing(kind: str) -> None:
    params = parameters()
    before = [p.detach().clone() for p in params]
    kept = keep_weights(torch.optim.AdamW(params, lr=0.1), kind)
    kept.begin_backward()
    assert kept.gradients() == {}
    kept.apply(0.5)
    assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))


@pytest.mark.parametrize("kind", KEEPINGS)
def test_restore_gives_gradients_back_in_the_parameters_dtype(kind: str) -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1e-3), kind)
    (p * 2).sum().backward()
    kept.begin_backward()
    kept.restore()
    assert p.grad.dtype == torch.bfloat16
    (p * 2).sum().backward()
    assert p.grad.tolist() == [4.0, 4.0]
    kept.restore()


def test_a_handle_that_is_dropped_leaves_no_reference() -> None:
    p = Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([p], lr=1.0)
    kept = keep_weights(optimizer, "master")
    del kept, optimizer
    gc.collect()
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]


def test_what_cannot_be_kept_so_is_refused() -> None:
    half = Parameter(torch.ones(2, dtype=torch.float16))
    for kind in ("split", "stochastic", "kahan"):
        with pytest.raises(ValueError, match=f"weights='{kind}' keeps bf16 parameters, got one of torch.float16"):
            keep_weights(torch.optim.SGD([half], lr=1.0), kind)
    assert half.grad_dtype == torch.float16
    with pytest.raises(ValueError, match="Adam has eps=1e-08, which is 0 in fp16"):
        keep_weights(torch.optim.Adam([half]), "true")
    keep_weights(torch.optim.Adam([half], eps=1e-4), "true").restore()
    with pytest.raises(ValueError, match=r"moments of kind 'e4m3' are kept by mixprec.optim.AdamW .* got Adam"):
        keep_weights(torch.optim.Adam([half]), "master", moments=Moments(kind="e4m3"))


def test_split_weights_lie_as_the_kernels_contract_says() -> None:
    p = Parameter(torch.zeros(3, dtype=torch.bfloat16))
    kept = keep_weights(torch.optim.SGD([p], lr=1.0), "split")
    value = torch.tensor([0.1, -3.3, 1e-30])
    kept.load_full_weight(p, value)
    remainder: Tensor = kept.extras()[p]["remainder"]
    bits = (p.detach().view(torch.int16).int() << 16) + remainder.int()
    assert torch.equal(bits.view(torch.float32), value)
    assert torch.equal(kernels.load_weight(kernels.StoredWeight("split", p.detach(), remainder)), value)


def test_new_data_is_taken_over() -> None:
    p = Parameter(torch.full((4,), 1.0).bfloat16())
    kept = keep_weights(torch.optim.SGD([p], lr=2.0**-12), "master")
    p.grad = torch.ones_like(p)
    kept.apply(1.0)
    p.data = torch.full((4,), 3.0).bfloat16()
    assert [q is p for q in kept.adopt_writes()] == [True]
    assert kept.full_weight(p).tolist() == [3.0] * 4
    p.data = p.data.clone()
    assert kept.adopt_writes() == []  # the same values elsewhere


@pytest.mark.parametrize("make", [torch.optim.SGD, mixprec.optim.SGD])
def test_weights_are_written_back_from_their_masters(make) -> None:
    p = Parameter(torch.full((4,), 1.0).bfloat16())
    kept = keep_weights(make([p], lr=2.0**-12), "master")
    p.grad = torch.ones_like(p)
    kept.apply(1.0)
    p.data.zero_()
    kept.write_back()
    assert p.tolist() == [1.0] * 4
    assert kept.full_weight(p).tolist() == [1.0 - 2.0**-12] * 4
    assert kept.adopt_writes() == []
