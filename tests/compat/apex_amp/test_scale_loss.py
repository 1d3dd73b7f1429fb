"""Scales, skipped steps, accumulation, and the state that is saved."""

from __future__ import annotations

import copy
import gc
import logging
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mixprec.compat import apex_amp as amp
from tests.compat.apex_amp.models import INPUT, TARGET, Weights, backward, network, scale

INF = float("inf")
#: At apex's 2^16, a gradient of 1 leaves fp16.
START = 2.0**12


def prepared(
    *values: float, opt_level: str = "O2", lr: float = 0.5, **options: object
) -> tuple[Weights, torch.optim.SGD]:
    model = Weights(*values)
    options = {"max_loss_scale": START, **options}
    return amp.initialize(model, torch.optim.SGD(model.parameters(), lr=lr), opt_level=opt_level, **options)


@pytest.mark.parametrize("opt_level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("bad", [INF, math.nan])
def test_a_step_is_skipped_once(opt_level: str, bad: float, caplog: pytest.LogCaptureFixture) -> None:
    model, optimizer = prepared(1.0, opt_level=opt_level, loss_scale="dynamic")
    seen = []
    with caplog.at_level(logging.WARNING, "mixprec"):
        for factor in (1.0, bad, 1.0):
            optimizer.zero_grad()
            backward(model(factor), optimizer)
            optimizer.step()
            seen.append((model.p.item(), scale(optimizer)))
    assert seen == [(0.5, START), (0.5, START / 2), (0.0, START / 2)]
    assert [r.getMessage() for r in caplog.records] == [
        "apex_amp, loss 0: a gradient is not finite; the step is skipped, loss scale 4096 -> 2048"
    ]


def test_a_skipped_step_changes_nothing() -> None:
    model = Weights(1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", verbosity=0, max_loss_scale=START)
    backward(model(1.0), optimizer)
    optimizer.step()
    (master,) = amp.master_params(optimizer)
    before = copy.deepcopy(optimizer.state_dict()), master.detach().clone()
    optimizer.zero_grad()
    backward(model(INF), optimizer)
    optimizer.step()
    torch.testing.assert_close(optimizer.state_dict(), before[0], rtol=0, atol=0)
    assert torch.equal(master, before[1])


@pytest.mark.parametrize("schedule_first", [True, False])
def test_a_schedule_that_counts_applied_steps(schedule_first: bool) -> None:
    model = Weights(1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if schedule_first else None
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", max_loss_scale=4.0)
    schedule = schedule or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    applied = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor in (0.0, INF, INF, 0.0, 0.0):
            optimizer.zero_grad()
            before = scale(optimizer)
            backward(model(factor), optimizer)
            optimizer.step()
            applied.append(scale(optimizer) >= before)
            if applied[-1]:
                schedule.step()
    assert applied == [True, False, False, True, True]
    assert (optimizer.param_groups[0]["lr"], scale(optimizer), model.p.item()) == (0.125, 1.0, 1.0)


@pytest.mark.parametrize("opt_level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("parts", [1, 2])
def test_gradients_are_clipped_without_their_scale(opt_level: str, parts: int) -> None:
    model, optimizer = prepared(1.0, 1.0, opt_level=opt_level, lr=0.1, loss_scale=1024.0)
    for _ in range(parts):
        backward(model(3.0 / parts, 4.0 / parts), optimizer)
    norm = nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    assert norm.item() == pytest.approx(5.0, rel=1e-3)
    optimizer.step()
    tolerance = 1e-3 if opt_level == "O3" else 1e-5
    assert model.p.tolist() == pytest.approx([0.94, 0.92], abs=max(tolerance, 5e-4 if opt_level == "O2" else 0))
    (master,) = amp.master_params(optimizer)
    assert master.tolist() == pytest.approx([0.94, 0.92], abs=tolerance)


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
@pytest.mark.parametrize("delays", [True, False])
def test_accumulation_is_a_sum_in_fp32(opt_level: str, delays: bool) -> None:
    model, optimizer = prepared(1.0, opt_level=opt_level, loss_scale=2.0**7)
    factors = (1.0, 2.0**-12, 2.0**-12, 2.0**-12)  # in fp16, 1 + 2^-12 is 1
    for i, factor in enumerate(factors):
        backward(model(factor), optimizer, delay_unscale=delays and i < 3)
    (master,) = amp.master_params(optimizer)
    assert master.grad is not None
    assert master.grad.tolist() == [1.0 + 3 * 2.0**-12]
    optimizer.step()
    assert master.tolist() == [0.5 - 1.5 * 2.0**-12]


def test_an_overflow_in_any_part_of_a_sum_skips_the_step() -> None:
    model, optimizer = prepared(1.0)
    backward(model(INF), optimizer)
    backward(model(1.0), optimizer)
    optimizer.step()
    assert (model.p.item(), scale(optimizer)) == (1.0, START / 2)
    optimizer.zero_grad()
    backward(model(1.0), optimizer)
    optimizer.step()
    assert model.p.item() == 0.5


def test_a_step_with_scaled_gradients_is_refused() -> None:
    model, optimizer = prepared(1.0)
    backward(model(1.0), optimizer, delay_unscale=True)
    with pytest.raises(RuntimeError, match="delay_unscale=True"):
        optimizer.step()
    backward(model(1.0), optimizer)
    optimizer.step()
    assert model.p.item() == 0.0


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("clears", ["optimizer", "model"])
def test_a_window_that_is_dropped_leaves_nothing(clears: str, set_to_none: bool) -> None:
    model, optimizer = prepared(1.0)
    backward(model(8.0), optimizer)
    backward(model(8.0), optimizer, delay_unscale=True)
    (optimizer if clears == "optimizer" else model).zero_grad(set_to_none=set_to_none)
    backward(model(1.0), optimizer)
    optimizer.step()
    assert model.p.item() == 0.5


def test_losses_of_different_scales_add_up() -> None:
    model, optimizer = prepared(1.0, num_losses=2, lr=0.125)
    backward(model(INF), optimizer, loss_id=1)
    optimizer.step()
    optimizer.zero_grad()
    assert (scale(optimizer, 0), scale(optimizer, 1)) == (START, START / 2)
    backward(model(1.0), optimizer, loss_id=0, delay_unscale=True)
    backward(model(2.0), optimizer, loss_id=1, delay_unscale=True)
    backward(model(4.0), optimizer, loss_id=0)
    optimizer.step()
    assert model.p.item() == 1.0 - 7 / 8


def test_a_backward_pass_that_fails_adds_nothing() -> None:
    model, optimizer = prepared(1.0)
    backward(model(1.0), optimizer)

    def fail() -> None:
        with amp.scale_loss(model(4.0), optimizer) as scaled_loss:
            scaled_loss.backward()
            raise KeyError("data")

    with pytest.raises(KeyError):
        fail()
    (master,) = amp.master_params(optimizer)
    assert master.grad is not None
    assert master.grad.item() == 1.0
    backward(model(0.5), optimizer)
    optimizer.step()
    assert model.p.item() == 0.25


def test_a_delayed_check_waits_for_the_step() -> None:
    model, optimizer = prepared(1.0)
    backward(model(INF), optimizer, delay_overflow_check=True)
    assert scale(optimizer) == START
    optimizer.step()
    assert (model.p.item(), scale(optimizer)) == (1.0, START / 2)


def test_each_loss_has_its_scale() -> None:
    models = [Weights(1.0), Weights(1.0)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in models]
    models, optimizers = amp.initialize(models, optimizers, opt_level="O2", num_losses=3, max_loss_scale=START)
    backward(models[0](1.0), optimizers[0], loss_id=0)
    backward(models[1](INF), optimizers[1], loss_id=1)
    backward(models[0](0.25) + models[1](1.0), optimizers, loss_id=2)  # pyright: ignore[reportArgumentType]
    for optimizer in optimizers:
        optimizer.step()
    assert [m.p.item() for m in models] == [0.375, 1.0]
    assert [scale(optimizers[0], i) for i in range(3)] == [START, START / 2, START]
    assert amp.state_dict(optimizers[1]) == amp.state_dict(optimizers[0])
    for wrong in (3, -1, "0"):
        with pytest.raises(ValueError, match="loss_id"):
            backward(models[0](1.0), optimizers[0], loss_id=wrong)  # pyright: ignore[reportArgumentType]


def test_ends_of_the_scale() -> None:
    model, optimizer = prepared(1.0, min_loss_scale=2.0**10, verbosity=0)
    for _ in range(5):
        backward(model(INF), optimizer)
        optimizer.step()
    assert scale(optimizer) == 2.0**10
    model, optimizer = prepared(1.0, verbosity=0)
    for _ in range(60):
        backward(model(math.nan), optimizer)
        optimizer.step()
    assert scale(optimizer) == 2.0**-24
    optimizer.zero_grad()
    backward(model(1.0), optimizer)
    optimizer.step()
    assert model.p.item() == 0.5


def test_a_static_scale_skips_too_and_stays() -> None:
    model, optimizer = prepared(1.0, loss_scale=128.0)
    backward(model(INF), optimizer)
    optimizer.step()
    assert (model.p.item(), scale(optimizer)) == (1.0, 128.0)


def test_resuming_is_exact() -> None:
    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, factors: tuple[float, ...]) -> list[float]:
        losses = []
        for factor in factors:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(INPUT), TARGET)
            backward(factor * loss, optimizer)
            optimizer.step()
            losses.append(loss.item())
        return losses

    def start() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return amp.initialize(model, optimizer, opt_level="O2", num_losses=2, verbosity=0, max_loss_scale=2.0**16)

    whole, whole_optimizer = start()
    first, first_optimizer = start()
    assert steps(whole, whole_optimizer, (1.0, INF, 1.0)) == steps(first, first_optimizer, (1.0, INF, 1.0))
    saved = copy.deepcopy((first.state_dict(), first_optimizer.state_dict(), amp.state_dict(first_optimizer)))
    assert saved[2] == {
        "loss_scaler0": {"loss_scale": 2.0**15, "unskipped": 1},
        "loss_scaler1": {"loss_scale": 2.0**16, "unskipped": 0},
    }
    used, used_optimizer = start()
    steps(used, used_optimizer, (1.0, 1.0))
    steps(whole, whole_optimizer, (1.0, 1.0))
    for model, optimizer in (start(), (used, used_optimizer)):
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(copy.deepcopy(saved[1]))  # torch takes the tensors as they are
        amp.load_state_dict(saved[2], optimizer)
        assert amp.state_dict(optimizer) == saved[2]
        steps(model, optimizer, (1.0, 1.0))
        found = model.state_dict()
        assert [name for name, value in whole.state_dict().items() if not torch.equal(value, found[name])] == []


def test_weights_that_are_written_from_outside_reach_the_masters() -> None:
    model, optimizer = prepared(1.0, 1.0)
    with torch.no_grad():
        model.p[0] = 3.0
    backward(model(1.0, 1.0), optimizer)
    optimizer.step()
    assert model.p.tolist() == [2.5, 0.5]


def test_the_state_is_found_without_an_argument_where_there_is_one() -> None:
    first = prepared(1.0)
    gc.collect()
    assert amp.state_dict() == amp.state_dict(first[1])
    for _ in range(2):
        second = prepared(1.0)  # the one before is held by nobody
    with pytest.raises(RuntimeError, match="optimizer=optimizer"):
        amp.state_dict()
    assert amp.state_dict(first[1]) == amp.state_dict(second[1])


def test_states_of_other_losses_are_refused() -> None:
    _, optimizer = prepared(1.0)
    entry = {"loss_scale": 2.0, "unskipped": 3}
    amp.load_state_dict({"loss_scaler0": entry}, optimizer)
    assert amp.state_dict(optimizer) == {"loss_scaler0": entry}
    for wrong in (
        {},
        {"loss_scaler0": entry, "loss_scaler1": entry},
        {"loss_scaler0": {"loss_scale": 0.0, "unskipped": 0}},
    ):
        with pytest.raises(ValueError, match="load_state_dict"):
            amp.load_state_dict(wrong, optimizer)


def test_what_was_never_initialized_is_refused() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="comes first"):
        backward(model(torch.ones(1, 1)).sum(), optimizer)
    with pytest.raises(TypeError, match="expected a torch"):
        backward(model(torch.ones(1, 1)).sum(), model)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="2 calls of initialize"):
        backward(model(torch.ones(1, 1)).sum(), [prepared(1.0)[1], prepared(1.0)[1]])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("opt_level", ["O0", "O1", "O2"])
def test_closures_are_refused(opt_level: str) -> None:
    model, optimizer = prepared(1.0, opt_level=opt_level)
    backward(model(1.0), optimizer)
    with pytest.raises(RuntimeError, match="closure"):
        optimizer.step(lambda: 1.0)
    optimizer.step()
    assert model.p.item() == 0.5


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_gradients() -> None:
    torch.manual_seed(0)
    model = nn.Embedding(4, 2, sparse=True)
    start = model.weight.detach().clone()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.5), opt_level="O1")
    for _ in range(2):
        backward(model(torch.tensor([1, 1, 3])).sum() / 2, optimizer)
    optimizer.step()
    expected = start - torch.tensor([[0.0] * 2, [1.0] * 2, [0.0] * 2, [0.5] * 2])
    assert torch.equal(model.weight, expected)
