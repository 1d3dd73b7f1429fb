"""Several optimizers in one session: as one, or each by itself."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import mixprec.optim
from mixprec.specs import LossScale
from mixprec.training import prepare

DYNAMIC = LossScale(kind="dynamic", initial=8.0, interval=2)


def gan() -> nn.ModuleDict:
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "g": nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)),
            "d": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        }
    )


def optimizers(model: nn.ModuleDict, kind=torch.optim.AdamW) -> dict[str, torch.optim.Optimizer]:
    return {"g": kind(model["g"].parameters(), lr=0.01), "d": kind(model["d"].parameters(), lr=0.02)}


def losses(model: nn.ModuleDict, step: int) -> tuple[Tensor, Tensor]:
    """Of the discriminator (the generator's output not detached, as many write it), and of the generator."""
    draw = torch.Generator().manual_seed(step)
    z, real = torch.randn(16, 3, generator=draw), torch.randn(16, 4, generator=draw)
    fake = model["g"](z)
    d = nn.functional.softplus(-model["d"](real)).mean() + nn.functional.softplus(model["d"](fake)).mean()
    return d, nn.functional.softplus(-model["d"](model["g"](z))).mean()


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(map(torch.equal, a, b))


@pytest.mark.parametrize("kind", [torch.optim.AdamW, mixprec.optim.AdamW, torch.optim.SGD])
def test_a_gan_trains_as_the_plain_loop_does(kind):
    plain, model = gan(), gan()
    own = optimizers(plain, kind)
    session = prepare(model, optimizers(model, kind), "fp32", loss_scale=DYNAMIC)
    for step in range(5):
        for which, name in enumerate("dg"):
            loss = losses(plain, step)[which]
            plain.zero_grad()
            loss.backward()
            own[name].step()
            result = session.step(losses(model, step)[which], optimizer=name, name=name)
            assert result.applied
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert session.applied == 10


def test_as_one_they_have_one_verdict_one_norm_and_one_clip():
    model = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False)})
    nn.init.ones_(model["a"].weight)
    nn.init.ones_(model["b"].weight)
    opts = [torch.optim.SGD(model[k].parameters(), lr=0.1) for k in "ab"]
    session = prepare(model, opts, "fp32", loss_scale=DYNAMIC, clip_norm=1.0)
    assert list(session.optimizers) == ["optimizer0", "optimizer1"]
    loss = 3 * model["a"].weight.sum() + 4 * model["b"].weight.sum()
    result = session.step(loss)
    assert result.grad_norm == 5.0
    assert [model[k].weight.item() for k in "ab"] == pytest.approx([0.94, 0.92], abs=1e-6)
    before = weights(model)
    bad = session.step(model["a"].weight.sum() * math.inf + model["b"].weight.sum())
    assert not bad.applied
    assert equal(before, weights(model))
    assert bad.skipped == {
        "optimizer0": "inf in gradient of a.weight",
        "optimizer1": "it steps together with optimizer0, which is not finite",
    }


def test_one_alone_has_its_own_verdict_and_leaves_the_others_gradients():
    model = gan()
    session = prepare(model, optimizers(model), "fp32", loss_scale=DYNAMIC)
    d, g = losses(model, 0)
    session.backward(d, name="d", optimizer="d")
    expected = [p.grad.clone() for p in model["d"].parameters()]
    assert all(p.grad is None for p in model["g"].parameters())
    before = weights(model["g"])
    bad = session.step(g * math.nan, optimizer="g", name="g")
    assert not bad.applied
    assert list(bad.skipped) == ["g"]
    assert equal(before, weights(model["g"]))
    assert equal(expected, [p.grad for p in model["d"].parameters()])
    assert dict(bad.loss_scales) == {"loss": 8.0, "d": 8.0, "g": 4.0}
    assert session.step(optimizer="d").applied
    assert (session.applied, session.skipped) == (1, 1)


def test_a_loss_that_reaches_both_is_decided_once_in_a_round():
    model = gan()
    session = prepare(model, optimizers(model), "fp32", loss_scale=DYNAMIC)
    for expected in (8.0, 16.0):
        session.backward(losses(model, 0)[0])
        assert session.step(optimizer="g").applied
        assert session.step(optimizer="d").loss_scale == expected


@pytest.mark.parametrize("first", ["g", "d"])
def test_a_later_optimizer_of_a_round_that_is_not_finite_still_shrinks_the_scale(first):
    model = gan()
    session = prepare(model, optimizers(model), "fp32", loss_scale=LossScale(kind="dynamic", initial=8.0, interval=1))
    second = "dg".replace(first, "")
    session.backward(losses(model, 0)[0])
    next(model[second].parameters()).grad[0] = math.inf
    assert session.step(optimizer=first).loss_scale == 16.0
    last = session.step(optimizer=second)
    assert not last.applied
    assert last.loss_scale == 4.0  # as if the round had been one step


def test_a_parameter_that_neither_has_keeps_its_true_gradient():
    model = gan()
    session = prepare(model, {"g": torch.optim.SGD(model["g"].parameters(), lr=0.1)}, "fp32", loss_scale=DYNAMIC)
    loss = losses(model, 0)[1]
    expected = torch.autograd.grad(loss, list(model["d"].parameters()), retain_graph=True)
    assert session.step(loss).applied
    for p, grad in zip(model["d"].parameters(), expected, strict=True):
        assert torch.equal(p.grad, grad)


def test_the_only_optimizer_and_their_names():
    model = gan()
    session = prepare(model, optimizers(model), "fp32")
    with pytest.raises(AttributeError, match=r"2 optimizers: session.optimizers\['g'\], session.optimizers\['d'\]"):
        _ = session.optimizer
    with pytest.raises(ValueError, match="no optimizer is named 'e', expected one of: g, d"):
        session.step(losses(model, 0)[0], optimizer="e")
    single = gan()
    alone = prepare(single, [torch.optim.SGD(single.parameters(), lr=0.1)], "fp32")
    assert alone.optimizers == {"optimizer": alone.optimizer}


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "bf16-split", "bf16-kahan", "bf16-sr", "bf16-true"])
def test_muon_beside_adamw_under_every_keeping(recipe):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    if recipe == "fp16":
        model.half()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    session = prepare(model, [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=0.01)], recipe)
    x = torch.randn(32, 4)
    first = None
    for _ in range(30):
        loss = (model(x).float() - x[:, :1]).square().mean()
        first = first or loss.item()
        session.step(loss)
    assert loss.item() < 0.7 * first
    assert session.applied >= 28
    session.restore()
    assert {id(p) for o in session.optimizers.values() for g in o.param_groups for p in g["params"]} == {
        id(p) for p in model.parameters()
    }


def test_an_optimizer_without_gradients_is_left_alone_beside_one_that_steps():
    model = gan()
    opts = optimizers(model)
    session = prepare(model, opts, "fp32", loss_scale=DYNAMIC)
    state = copy.deepcopy(opts["g"].state_dict())
    before = weights(model["g"])
    result = session.step(model["d"](torch.ones(2, 4)).sum())
    assert result.applied
    assert result.skipped == {"g": "no parameter of it has a gradient"}
    assert equal(before, weights(model["g"]))
    assert str(opts["g"].state_dict()) == str(state)


def test_a_skipped_step_gives_back_buffers_of_the_other_parts_and_each_applied_call_counts():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model = nn.ModuleDict({"g": generator, "d": nn.Linear(4, 1)})
    optimizers = {name: torch.optim.SGD(model[name].parameters(), lr=0.1) for name in ("g", "d")}
    session = prepare(model, optimizers, "fp32")
    for bad in (False, True):
        before = generator[1].running_mean.clone()
        fake = generator(torch.randn(8, 4))
        loss = model["d"](fake.detach()).mean() * (math.inf if bad else 1.0)
        assert session.step(loss, optimizer="d").applied != bad
        assert session.step(model["d"](fake).mean(), optimizer="g").applied
        assert torch.equal(generator[1].running_mean, before) == bad
    assert session.applied == 3
