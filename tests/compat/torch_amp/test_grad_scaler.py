"""What torch's own tests check of ``GradScaler``, and where this one must not lose a run."""

from __future__ import annotations

import copy
import logging
import math
import pickle
from collections import namedtuple
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mixprec.compat.torch_amp import GradScaler, autocast

INF = float("inf")
Pair = namedtuple("Pair", "first second")


def scaler(**options: float) -> GradScaler:
    return GradScaler("cpu", **options)  # pyright: ignore[reportArgumentType]


def parameter(value: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.tensor([value]))


def one_step(s: GradScaler, p: nn.Parameter, optimizer: torch.optim.Optimizer, factor: float = 1.0) -> None:
    optimizer.zero_grad()
    s.scale(factor * p.sum()).backward()
    s.step(optimizer)
    s.update()


class Case:
    """Two equal models and optimizers, four batches, of which the third gets a gradient of infinity."""

    bad = 2

    def __init__(self, make: Callable[..., torch.optim.Optimizer] = torch.optim.SGD, **options: float) -> None:
        torch.manual_seed(0)
        self.plain = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.scaled = copy.deepcopy(self.plain)
        self.plain_optimizer = make(self.plain.parameters(), lr=1.0, **options)
        self.scaled_optimizer = make(self.scaled.parameters(), lr=1.0, **options)
        self.data = [(torch.randn(8, 8), torch.randn(8, 8)) for _ in range(4)]

    def spoil(self) -> None:
        gradient = self.scaled[1].weight.grad
        assert gradient is not None
        gradient.fill_(INF)

    def check_equal(self, tolerance: float = 1e-7) -> None:
        for plain, scaled in zip(self.plain.parameters(), self.scaled.parameters(), strict=True):
            torch.testing.assert_close(scaled, plain, atol=tolerance, rtol=1e-5)
            states = self.scaled_optimizer.state[scaled], self.plain_optimizer.state[plain]
            torch.testing.assert_close(*states, atol=tolerance, rtol=1e-5)


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}),
    "sgd-momentum-foreach": (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
    "sgd-fused": (torch.optim.SGD, {"fused": True}),
    "adam": (torch.optim.Adam, {}),
    "adamw-foreach": (torch.optim.AdamW, {"foreach": True}),
    "adamw-fused": (torch.optim.AdamW, {"fused": True}),
    "adam-fused-amsgrad": (torch.optim.Adam, {"fused": True, "amsgrad": True}),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("unscales", [True, False])
def test_scaled_training_is_plain_training(optimizer: str, enabled: bool, unscales: bool) -> None:
    make, options = OPTIMIZERS[optimizer]
    case, s = Case(make, **options), GradScaler("cpu", 128.0, growth_interval=1, enabled=enabled)
    for i, (x, target) in enumerate(case.data):
        case.plain_optimizer.zero_grad()
        F.mse_loss(case.plain(x), target).backward()
        if not enabled or i != case.bad:
            case.plain_optimizer.step()
        case.scaled_optimizer.zero_grad()
        s.scale(F.mse_loss(case.scaled(x), target)).backward()
        if i == case.bad and enabled:
            case.spoil()
        if unscales:
            s.unscale_(case.scaled_optimizer)
        s.step(case.scaled_optimizer)
        s.update()
        s = pickle.loads(pickle.dumps(s))
    assert s.get_scale() == (128.0 * 2**3 / 2 if enabled else 1.0)
    case.check_equal(1e-6)


def test_in_a_region() -> None:
    case, s = Case(), scaler(init_scale=128.0, growth_interval=1)
    for x, target in case.data:
        case.plain_optimizer.zero_grad()
        F.mse_loss(case.plain(x), target).backward()
        case.plain_optimizer.step()
        case.scaled_optimizer.zero_grad()
        with autocast("cpu", torch.float16):
            loss = F.mse_loss(case.scaled(x), target)
        s.scale(loss).backward()
        s.step(case.scaled_optimizer)
        s.update()
    assert s.get_scale() == 128.0 * 2**4
    case.check_equal(1e-3)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
def test_clipping_comes_after_unscaling(parts: int, fused: bool) -> None:
    p = nn.Parameter(torch.ones(2))
    optimizer, s = torch.optim.SGD([p], lr=0.1, fused=fused), scaler(init_scale=1024.0)
    for _ in range(parts):
        s.scale((3 * p[0] + 4 * p[1]) / parts).backward()
    s.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(5.0)
    s.step(optimizer)
    s.update()
    assert p.tolist() == pytest.approx([0.94, 0.92], abs=1e-5)


def test_clipping_agrees_between_fused_and_other_steps() -> None:
    results = []
    for fused in (True, False):
        p = nn.Parameter(torch.ones(2))
        optimizer, s = torch.optim.AdamW([p], lr=0.1, fused=fused), scaler(init_scale=1024.0)
        for _ in range(3):
            optimizer.zero_grad()
            s.scale(3 * p[0] + 4 * p[1].square()).backward()
            s.unscale_(optimizer)
            nn.utils.clip_grad_norm_([p], 1.0)
            s.step(optimizer)
            s.update()
        results.append(p.detach())
    torch.testing.assert_close(*results, atol=1e-6, rtol=0)


def test_gradient_penalty() -> None:
    found = []
    for enabled in (True, False):
        case, s = Case(), GradScaler("cpu", 128.0, enabled=enabled)
        params = list(case.scaled.parameters())
        for x, target in case.data:
            case.scaled_optimizer.zero_grad()
            loss = F.mse_loss(case.scaled(x), target)
            gradients = torch.autograd.grad(s.scale(loss), params, create_graph=True)
            loss = loss + torch.stack([(g / s.get_scale()).square().sum() for g in gradients]).sum().sqrt()
            s.scale(loss).backward()
            s.step(case.scaled_optimizer)
            s.update()
        found.append([p.detach() for p in params])
    torch.testing.assert_close(*found, atol=1e-6, rtol=1e-5)


def test_accumulation() -> None:
    case, s = Case(), scaler(init_scale=128.0, growth_interval=1)
    for i, (x, target) in enumerate(case.data):
        (F.mse_loss(case.plain(x), target) / 2).backward()
        s.scale(F.mse_loss(case.scaled(x), target) / 2).backward()
        if i % 2:
            case.plain_optimizer.step()
            case.plain_optimizer.zero_grad()
            s.step(case.scaled_optimizer)
            s.update()
            case.scaled_optimizer.zero_grad()
    assert s.get_scale() == 128.0 * 2**2
    case.check_equal()


def test_two_losses_and_two_optimizers() -> None:
    ps = [parameter(), parameter()]
    optimizers = [torch.optim.SGD([p], lr=0.25) for p in ps]
    s = scaler(init_scale=4.0, growth_interval=1)
    for factor in (1.0, INF, 1.0):
        for optimizer in optimizers:
            optimizer.zero_grad()
        s.scale(ps[0].sum() + ps[1].sum()).backward(retain_graph=True)
        s.scale((factor * ps[1]).sum()).backward()
        s.unscale_(optimizers[0])
        s.step(optimizers[0])
        s.step(optimizers[1])
        s.update()
    assert [p.item() for p in ps] == [0.25, 0.0]  # the second one skipped a step of 0.5
    assert s.get_scale() == 4.0 * 2 / 2 * 2


def test_scale_of_everything_that_holds_tensors() -> None:
    s, t = scaler(init_scale=2.0), torch.full((1,), 4.0)
    outputs = s.scale((t.clone(), [t.clone(), (t.clone(),)], Pair(t.clone(), t.clone())))
    assert outputs == (8.0, [8.0, (8.0,)], Pair(8.0, 8.0))
    assert isinstance(outputs[2], Pair)
    assert [v.item() for v in s.scale(v for v in (t, t))] == [8.0, 8.0]
    for wrong in (3.0, "loss", {"loss": t}):
        with pytest.raises(ValueError, match="expected a tensor"):
            s.scale(wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_loss_of_16_bits_is_scaled_in_fp32(dtype: torch.dtype) -> None:
    p = nn.Parameter(torch.ones(2))
    scaled = scaler().scale(p.to(dtype))
    assert scaled.dtype == torch.float32
    assert scaled.tolist() == [65536.0, 65536.0]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_gradients() -> None:
    p = nn.Parameter(torch.zeros(2, 3))
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler(init_scale=4.0)
    s.scale(torch.zeros(1))
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    for last, found in ((64.0, False), (INF, True), (math.nan, True)):
        p.grad = torch.sparse_coo_tensor(indices, torch.tensor([16.0, 32.0, last]), (2, 3))
        s.unscale_(optimizer)
        if not found:
            assert p.grad.to_dense().tolist() == [[0.0, 0.0, 4.0], [8.0, 0.0, 16.0]]
        scale = s.get_scale()
        s.update()
        assert s.get_scale() == (scale / 2 if found else scale)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_an_index_that_occurs_twice_is_one_element() -> None:
    p = nn.Parameter(torch.zeros(2, 3, dtype=torch.bfloat16))
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler(init_scale=4.0)
    s.scale(torch.zeros(1))
    largest = torch.finfo(torch.bfloat16).max
    values = torch.tensor([largest, 1.0, largest], dtype=torch.bfloat16)
    p.grad = torch.sparse_coo_tensor(torch.tensor([[0, 1, 0], [2, 0, 2]]), values, (2, 3))
    s.unscale_(optimizer)
    s.update()
    assert s.get_scale() == 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("bad", [INF, -INF, math.nan])
def test_one_element_that_is_not_finite_is_found(dtype: torch.dtype, bad: float) -> None:
    p = nn.Parameter(torch.zeros(37, dtype=dtype))
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler(init_scale=4.0)
    s.scale(torch.zeros(1))
    p.grad = torch.full((37,), 4.0, dtype=dtype)
    p.grad[29] = bad
    s.step(optimizer)
    s.update()
    assert p.tolist() == [0.0] * 37
    assert s.get_scale() == 2.0
    p.grad = torch.full((37,), 4.0, dtype=dtype)
    s.step(optimizer)
    assert p.tolist() == [-2.0] * 37


def test_scale_and_tracker_over_a_resume() -> None:
    def run(s: GradScaler, model: nn.Linear, steps: range) -> list[tuple[float, int]]:
        optimizer, trace = torch.optim.SGD(model.parameters(), lr=0.1), []
        for i in steps:
            optimizer.zero_grad()
            s.scale(model(torch.ones(4, 2)).sum() * (INF if i == 1 else 1.0)).backward()
            s.step(optimizer)
            s.update()
            trace.append((s.get_scale(), s.state_dict()["_growth_tracker"]))
        return trace

    torch.manual_seed(0)
    model, options = nn.Linear(2, 1), {"init_scale": 2.0**8, "growth_interval": 3}
    other, whole = copy.deepcopy(model), scaler(**options)
    trace = [(256, 1), (128, 0), (128, 1), (128, 2), (256, 0), (256, 1), (256, 2), (512, 0)]
    assert run(whole, model, range(8)) == trace

    first = scaler(**options)
    assert run(first, other, range(4)) == trace[:4]
    saved = first.state_dict()
    used = scaler(init_scale=2.0, growth_interval=7)
    one_step(used, *(lambda p: (p, torch.optim.SGD([p], lr=0.1)))(parameter()))
    for s in (scaler(), used):
        s.load_state_dict(saved)
        assert s.state_dict() == saved
        again = copy.deepcopy(other)
        assert run(s, again, range(4, 8)) == trace[4:]
        assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_states_go_both_ways_between_torchs_and_this() -> None:
    torchs = torch.amp.GradScaler("cpu", init_scale=3.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=2)
    ours = scaler(init_scale=6.0, growth_factor=7.0, backoff_factor=0.8, growth_interval=1)
    ours.scale(torch.ones(1))
    ours.load_state_dict(torchs.state_dict())
    assert ours.state_dict() == torchs.state_dict()
    assert (ours.get_scale(), ours.get_growth_factor(), ours.get_backoff_factor()) == (3.0, 4.0, 0.25)
    assert ours.get_growth_interval() == 2
    p = parameter()
    one_step(ours, p, torch.optim.SGD([p], lr=0.1))
    back = torch.amp.GradScaler("cpu")
    back.load_state_dict(ours.state_dict())
    assert back.state_dict() == ours.state_dict() == {**torchs.state_dict(), "_growth_tracker": 1}
    assert isinstance(ours, torch.amp.GradScaler)


def test_states_that_no_run_can_use_are_refused() -> None:
    s, state = scaler(), scaler().state_dict()
    for scale in (0.0, -1.0, INF, math.nan):
        with pytest.raises(ValueError, match="finite number above 0"):
            s.load_state_dict({**state, "scale": scale})
    with pytest.raises(ValueError, match="_growth_tracker"):
        s.load_state_dict({"scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 1})
    with pytest.raises(RuntimeError, match="disabled"):
        s.load_state_dict({})
    assert s.state_dict() == state


def test_a_schedule_that_counts_applied_steps() -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler(init_scale=4.0, growth_interval=10**9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    applied = []
    for factor in (1.0, INF, INF, 1.0, 1.0):
        scale = s.get_scale()
        one_step(s, p, optimizer, factor)
        applied.append(s.get_scale() >= scale)
        if applied[-1]:
            schedule.step()
    assert applied == [True, False, False, True, True]
    assert (optimizer.param_groups[0]["lr"], s.get_scale()) == (0.125, 1.0)


def test_a_fused_optimizers_own_counter_counts_applied_steps() -> None:
    p = parameter()
    optimizer, s = torch.optim.AdamW([p], lr=0.1, weight_decay=0.0, fused=True), scaler(init_scale=4.0)
    for factor in (1.0, INF, INF, 1.0):
        one_step(s, p, optimizer, factor)
    assert optimizer.state[p]["step"].item() == 2
    assert p.item() == pytest.approx(0.8)


@pytest.mark.parametrize("initial", [2.0**120, 2.0**127, 1e38])
def test_the_scale_stops_at_its_ceiling_and_says_so_once(initial: float) -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler(init_scale=initial, growth_interval=1, growth_factor=16.0)
    for _ in range(40):
        one_step(s, p, optimizer, 0.0)
        assert p.grad is not None
        assert p.grad.item() == 0.0
    assert s.get_scale() == 2.0**127
    assert [event.name for event in s.events] == ["loss scale ceiling"]


def test_a_streak_of_nan_leaves_a_scale_that_works(caplog: pytest.LogCaptureFixture) -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=0.5), scaler()
    with caplog.at_level(logging.WARNING, "mixprec"):
        for _ in range(60):
            one_step(s, p, optimizer, math.nan)
    assert s.get_scale() == 2.0**-24
    assert [event.name for event in s.events] == ["loss scale alarm", "loss scale floor"]
    assert len(caplog.records) == 2
    one_step(s, p, optimizer)
    assert p.item() == 0.5


@pytest.mark.parametrize("is_wide", [True, False])
def test_a_gradient_beyond_fp16_gets_a_scale_below_one(is_wide: bool) -> None:
    p = parameter(0.0)
    optimizer, s = torch.optim.SGD([p], lr=1e-5), scaler(init_scale=4.0)
    scales, values = [], []
    for _ in range(6):
        optimizer.zero_grad()
        half = p.half()
        s.scale((1e5 * (half.float() if is_wide else half)).sum()).backward()
        s.step(optimizer)
        s.update()
        scales.append(s.get_scale())
        values.append(p.item())
    assert scales == [2.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert values == pytest.approx([0.0, 0.0, 0.0, -0.9997, -1.9994, -2.999], abs=1e-3)


@pytest.mark.parametrize("fused", [True, False])
def test_a_gradient_that_overflows_as_it_is_unscaled_is_not_applied(fused: bool) -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=0.1, fused=fused), scaler(init_scale=2.0**-24)
    s.scale(torch.zeros(1))
    p.grad = torch.full((1,), 1e35)  # finite, but 1.7e42 without the scale
    s.step(optimizer)
    s.update()
    assert p.item() == 1.0


def test_order_of_calls() -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=0.1), scaler()
    with pytest.raises(AssertionError, match=r"scaler\.scale"):
        s.step(optimizer)
    with pytest.raises(AssertionError, match=r"scaler\.scale"):
        s.update()
    s.scale(p.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        s.update()
    s.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        s.unscale_(optimizer)
    with pytest.raises(AssertionError, match="beginning"):
        pickle.dumps(s)
    s.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        s.step(optimizer)
    with pytest.raises(RuntimeError, match="after"):
        s.unscale_(optimizer)
    s.update()
    idle = torch.optim.SGD([parameter()], lr=0.1)
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        s.step(idle)


def test_closures_are_refused_however_they_come() -> None:
    p = parameter()
    optimizer, s = torch.optim.SGD([p], lr=0.1), scaler()
    s.scale(p.sum()).backward()
    for arguments in ((lambda: 1.0,), ()):
        with pytest.raises(RuntimeError, match="closure"):
            s.step(optimizer, *arguments, **({} if arguments else {"closure": lambda: 1.0}))
    s.step(optimizer, None)  # as accelerate calls it
    assert p.item() == pytest.approx(0.9)
    other, off = torch.optim.SGD([p], lr=0.1), GradScaler("cpu", enabled=False)
    assert off.step(other, closure=lambda: torch.tensor(3.0)) == 3.0


def test_fp16_gradients_are_refused_with_the_way() -> None:
    p = nn.Parameter(torch.ones(3, dtype=torch.float16))
    optimizer, s = torch.optim.SGD([p], lr=0.1), scaler(init_scale=2.0)
    s.scale(p.sum()).backward()
    for refused in (s.unscale_, s.step):
        with pytest.raises(ValueError, match=r"Attempting to unscale FP16 gradients.*\[3\].*apex_amp"):
            refused(optimizer)


def test_new_scales() -> None:
    s = scaler(init_scale=4.0)
    s.scale(torch.ones(1))
    for new in (8.0, 16, torch.tensor([32.0])):
        s.update(new)
        assert s.get_scale() == float(new)
    for wrong in (0.0, -2.0, INF, math.nan, 2.0**128, torch.ones(2), torch.ones(1, requires_grad=True)):
        with pytest.raises(ValueError, match="new_scale"):
            s.update(wrong)
    with pytest.raises(TypeError, match="new_scale"):
        s.update("8")  # pyright: ignore[reportArgumentType]
    assert s.get_scale() == 32.0


def test_factors_and_interval() -> None:
    s = scaler()
    s.set_growth_factor(4.0)
    s.set_backoff_factor(0.25)
    s.set_growth_interval(1)
    assert (s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval()) == (4.0, 0.25, 1)
    p = parameter()
    one_step(s, p, torch.optim.SGD([p], lr=0.1))
    assert s.get_scale() == 2.0**18
    for call in (
        lambda: s.set_growth_factor(1.0),
        lambda: s.set_backoff_factor(1.0),
        lambda: s.set_growth_interval(0),
        lambda: scaler(growth_factor=0.5),
        lambda: scaler(backoff_factor=1.5),
        lambda: scaler(init_scale=0.0),
        lambda: scaler(init_scale=INF),
    ):
        with pytest.raises(ValueError, match=r"GradScaler: (growth|backoff|init)_(factor|interval|scale) is"):
            call()


def test_disabled_is_a_no_op() -> None:
    s, p = GradScaler("cpu", enabled=False), parameter()
    optimizer, loss = torch.optim.SGD([p], lr=0.5), p.sum()
    assert s.scale(loss) is loss
    loss.backward()
    s.unscale_(optimizer)
    s.step(optimizer)
    s.update()
    s.load_state_dict({"anything": 1})
    assert (p.item(), s.get_scale(), s.state_dict(), s.is_enabled()) == (0.5, 1.0, {}, False)


def test_optimizers_that_handle_the_scale_themselves() -> None:
    class Own(torch.optim.Optimizer):
        _step_supports_amp_scaling = True

        def __init__(self, params: list[nn.Parameter]) -> None:
            super().__init__(params, {})

    class TakesScaler(Own):
        def step(self, closure: object = None, *, grad_scaler: GradScaler | None = None) -> None:
            assert isinstance(grad_scaler, GradScaler)
            assert not hasattr(self, "found_inf")

    class TakesTensors(Own):
        def step(self, closure: object = None) -> None:
            seen.append((self.grad_scale.item(), self.found_inf.item()))

    seen: list[tuple[float, float]] = []
    p, s = parameter(), scaler(init_scale=2.0)
    s.scale(p.sum()).backward()
    with pytest.warns(FutureWarning, match="grad_scaler|passing itself"):
        s.step(TakesScaler([p]))
    tensors = TakesTensors([p])
    s.step(tensors)
    s.update()
    assert seen == [(2.0, 0.0)]
    assert not hasattr(tensors, "grad_scale")


def test_gradients_that_are_spoiled_after_the_check_are_the_callers() -> None:
    p = parameter()
    optimizer, s = torch.optim.Adam([p], lr=0.1), scaler()
    s.scale(p.sum()).backward()
    s.unscale_(optimizer)
    assert p.grad is not None
    p.grad.fill_(math.nan)
    s.step(optimizer)
    assert math.isnan(p.item())


def test_parameters_on_which_no_loss_depends_are_left() -> None:
    used, idle = parameter(), parameter()
    optimizer, s = torch.optim.AdamW([used, idle], lr=0.1), scaler()
    one_step(s, used, optimizer)
    assert idle.item() == 1.0
    assert used.item() < 1.0


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")
def test_the_cpu_stands_for_cuda_and_says_so() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        s = GradScaler(init_scale=4.0)
    p = parameter()
    one_step(s, p, torch.optim.SGD([p], lr=0.5), INF)
    assert (s.is_enabled(), p.item(), s.get_scale()) == (True, 1.0, 2.0)


def test_the_old_spelling_and_unknown_devices_are_explained() -> None:
    with pytest.raises(TypeError, match=r"device is 1024.0 .*init_scale.*torch_cuda_amp"):
        GradScaler(2.0**10)  # pyright: ignore[reportArgumentType]
    for device in ("gpu", "gpu:0"):
        with pytest.raises(RuntimeError, match="expected 'cuda' or 'cpu'"):
            GradScaler(device)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("init_scale", 0.0, ValueError),
        ("init_scale", "8", TypeError),
        ("growth_factor", 1.0, ValueError),
        ("backoff_factor", 1.0, ValueError),
        ("growth_interval", 0, ValueError),
        ("growth_interval", 2.5, TypeError),
    ],
)
def test_errors_name_the_argument(name: str, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"GradScaler: {name} is "):
        scaler(**{name: value})  # pyright: ignore[reportArgumentType]


def test_messages_say_what_to_do() -> None:
    p = nn.Parameter(torch.ones(1))
    optimizer, s = torch.optim.SGD([p], lr=1.0), scaler()
    with pytest.raises(AssertionError, match=r"_scale is None.*Call scaler\.scale\(loss\)\.backward\(\) before"):
        s.update()
    s.scale(torch.ones(1))
    with pytest.raises(AssertionError, match=r"^No inf checks were recorded for this optimizer\. None of .* SGD"):
        s.step(optimizer)
    with pytest.raises(TypeError, match="saved without a scaler"):
        s.load_state_dict(None)  # pyright: ignore[reportArgumentType]
