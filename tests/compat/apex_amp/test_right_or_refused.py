"""A step is right or refused in words: gradients with a scale, batches that are bad, optimizers of other models."""

from __future__ import annotations

import logging
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mixprec
from mixprec.compat import apex_amp as amp
from tests.compat.apex_amp.models import LEVELS, Weights, backward, scale

INF = float("inf")


def pair(scale: float | str = 256.0, **options: object) -> tuple[list[Weights], list[torch.optim.SGD]]:
    models = [Weights(1.0), Weights(1.0)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in models]
    return amp.initialize(models, optimizers, opt_level="O2", loss_scale=scale, **options)


def one(opt_level: str = "O2", **options: object) -> tuple[Weights, torch.optim.SGD]:
    model, options = Weights(1.0), {"loss_scale": 256.0, **options}
    return amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.5), opt_level=opt_level, **options)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
@pytest.mark.parametrize("options", [{"opt_level": "O3"}, {"opt_level": "O2", "master_weights": False}])
def test_an_eps_that_is_zero_in_fp16_is_refused(kind: type[torch.optim.Adam], options: dict[str, object]) -> None:
    model = Weights(1.0, 1.0)
    with pytest.raises(ValueError, match=r"eps=1e-08, which is 0 in fp16.*eps=1e-4.*O2"):
        amp.initialize(model, kind(model.parameters(), lr=0.1, eps=1e-8), **options)  # pyright: ignore[reportArgumentType]
    assert model.p.dtype == torch.float32
    model, optimizer = amp.initialize(model, kind(model.parameters(), lr=0.1, eps=1e-4), **options)  # pyright: ignore[reportArgumentType]
    backward(model(1.0, 0.0), optimizer)
    optimizer.step()
    assert model.p.isfinite().all()
    assert model.p[1].item() == pytest.approx(1.0, abs=2e-3)
    added = nn.Parameter(torch.ones(1, dtype=torch.float16))
    with pytest.raises(ValueError, match="eps=1e-4"):
        optimizer.add_param_group({"params": [added], "eps": 1e-8})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [added]})


def test_an_optimizer_that_computes_in_fp32_needs_no_such_eps() -> None:
    model = Weights(1.0, 1.0)
    optimizer = mixprec.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O3")
    model.p.grad = torch.tensor([0.0, 1e-4], dtype=model.p.dtype)
    optimizer.step()
    assert model.p.tolist() == [1.0, pytest.approx(0.999, abs=5e-4)]


@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("bad", [INF, math.nan])
def test_a_scale_of_one_skips_too(opt_level: str, bad: float, caplog: pytest.LogCaptureFixture) -> None:
    model, optimizer = one(opt_level, loss_scale=1.0)
    with caplog.at_level(logging.WARNING, "mixprec"):
        for factor in (1.0, bad, 1.0):
            optimizer.zero_grad()
            backward(model(factor), optimizer)
            optimizer.step()
    assert model.p.item() == 0.0
    assert [r.getMessage() for r in caplog.records] == [
        "apex_amp, loss 0: a gradient is not finite; the step is skipped, loss scale 1 stays"
    ]


def test_two_open_at_once_are_refused() -> None:
    model, optimizer = one()
    with (
        pytest.raises(RuntimeError, match="one after the other"),
        amp.scale_loss(model(1.0), optimizer) as a,
        amp.scale_loss(model(2.0), optimizer) as b,
    ):
        (a + b).backward()
    backward(model(1.0), optimizer)
    optimizer.step()
    assert model.p.item() == 0.5


def test_a_backward_pass_after_the_block_is_refused() -> None:
    model, optimizer = one()
    with amp.scale_loss(model(1.0), optimizer) as scaled_loss:
        pass
    with pytest.raises(RuntimeError, match="after the end of its scale_loss"):
        scaled_loss.backward()
    optimizer.step()
    assert model.p.item() == 1.0


def test_the_loss_itself_in_the_block_is_refused() -> None:
    model, optimizer = one(loss_scale=256.0)
    backward(model(0.5), optimizer)
    loss = model(1.0)
    with pytest.raises(RuntimeError, match=r"not loss\.backward\(\)"), amp.scale_loss(loss, optimizer):
        loss.backward()
    optimizer.step()
    assert model.p.item() == 0.75


def test_a_step_inside_the_block_is_refused() -> None:
    model, optimizer = one()

    def step_inside() -> None:
        with amp.scale_loss(model(1.0), optimizer) as scaled_loss:
            scaled_loss.backward()
            optimizer.step()

    with pytest.raises(RuntimeError, match="after the end of the with block"):
        step_inside()
    assert model.p.item() == 1.0


@pytest.mark.parametrize("delays", [False, True])
def test_what_reaches_the_parameters_of_another_optimizer_is_true(delays: bool) -> None:
    (g, d), (optimizer_g, optimizer_d) = pair()
    backward(d(0.25), optimizer_d)
    backward(g(1.0) + d(0.5), optimizer_g, delay_unscale=delays)
    optimizer_d.step()
    assert d.p.item() == 1.0 - 0.5 * 0.75
    backward(g(1.0), optimizer_g)
    optimizer_g.step()
    assert g.p.item() == 0.0


@pytest.mark.parametrize("clears", [False, True])
def test_what_is_not_finite_there_skips_that_step_unless_it_was_cleared(clears: bool) -> None:
    (g, d), (optimizer_g, optimizer_d) = pair("dynamic", verbosity=0, max_loss_scale=256.0)
    backward(g(1.0) + d(INF), optimizer_g)
    optimizer_g.step()
    assert (g.p.item(), scale(optimizer_g)) == (0.5, 256.0)
    if clears:
        d.zero_grad()
    backward(d(0.5), optimizer_d)
    optimizer_d.step()
    assert (d.p.item(), scale(optimizer_d)) == ((0.75, 256.0) if clears else (1.0, 128.0))


def test_optimizers_that_share_a_parameter_take_its_scale_out_once() -> None:
    model = Weights(1.0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=lr) for lr in (0.5, 0.25)]
    model, optimizers = amp.initialize(model, optimizers, opt_level="O1", loss_scale=256.0)
    backward(model(1.0), optimizers)  # pyright: ignore[reportArgumentType]
    assert model.p.grad is not None
    assert model.p.grad.item() == 1.0
    backward(model(1.0), optimizers[0])
    assert model.p.grad.item() == 2.0


@pytest.mark.parametrize("opt_level", LEVELS)
def test_a_skipped_step_gives_the_statistics_back(opt_level: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level=opt_level, verbosity=0, loss_scale=2.0)
    x = torch.randn(8, 2)
    backward(model(x).sum(), optimizer)
    optimizer.step()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert int(before["1.num_batches_tracked"]) == 1
    optimizer.zero_grad()
    backward(model(x * INF).sum(), optimizer)
    optimizer.step()
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name


def test_the_step_of_one_model_keeps_what_another_has_to_give_back() -> None:
    models = [nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1)) for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    (a, b), (optimizer_a, optimizer_b) = amp.initialize(models, optimizers, opt_level="O1", verbosity=0, loss_scale=2.0)
    good, bad = a(torch.ones(2, 1)), b(torch.full((2, 1), INF))
    backward(good.sum(), optimizer_a)
    backward(bad.sum(), optimizer_b)
    optimizer_a.step()
    optimizer_b.step()
    assert [int(m[0].num_batches_tracked) for m in (a, b)] == [1, 0]
    assert b[0].running_mean.item() == 0.0


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    model, other = Weights(1.0), Weights(1.0)
    with pytest.raises(ValueError, match="no parameter of the models"):
        amp.initialize(model, torch.optim.SGD(other.parameters(), lr=0.5), opt_level="O2")
    assert model.p.dtype == torch.float32


def test_a_step_without_a_gradient_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    (g, _), (optimizer_g, optimizer_d) = pair()
    with caplog.at_level(logging.WARNING, "mixprec"):
        for _ in range(2):
            backward(g(1.0), optimizer_d)
            optimizer_d.step()
    assert [r.getMessage() for r in caplog.records] == [
        "apex_amp: SGD.step: scale_loss has given none of its parameters a gradient, so that nothing is trained: is it "
        "the optimizer of the model whose loss this is?"
    ]
    optimizer_g.step()


@pytest.mark.parametrize("loss", [3.0, [torch.ones(1)]])
def test_a_loss_that_is_no_tensor_is_refused(loss: object) -> None:
    _, optimizer = one()
    with pytest.raises(TypeError, match="expected a tensor with a graph"):
        backward(loss, optimizer)  # pyright: ignore[reportArgumentType]


def test_a_state_that_is_none_is_refused() -> None:
    _, optimizer = one()
    with pytest.raises(TypeError, match="saved without amp"):
        amp.load_state_dict(None, optimizer)  # pyright: ignore[reportArgumentType]


def test_a_loss_of_64_bits_stays_so() -> None:
    model = nn.Linear(1, 1).double()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level="O1")
    loss = F.mse_loss(model(torch.ones(1, 1, dtype=torch.float64)).double(), torch.ones(1, 1, dtype=torch.float64))
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss.dtype == torch.float64
        scaled_loss.backward()
