"""The session's steps: order, skipping, accumulation, what is told."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from mixprec.specs import LossScale, recipe
from mixprec.training import prepare

DYNAMIC = LossScale(kind="dynamic", initial=1024.0)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def build(recipe="fp32", optimizer=None, **options):
    torch.manual_seed(0)
    model = Blocks()
    return prepare(model, (optimizer or adam)(model.parameters()), recipe, **options)


def adam(params):
    return torch.optim.AdamW(params, lr=0.01)


def batch(seed=0):
    return torch.randn(16, 4, generator=torch.Generator().manual_seed(seed))


def loss_of(session, seed=0):
    return session.model(batch(seed)).square().mean()


def weights(session):
    return {name: p.detach().clone() for name, p in session.model.named_parameters()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_step_equals_the_plain_loop():
    session, plain = build(clip_norm=0.1), Blocks()
    torch.manual_seed(0)
    plain = Blocks()
    optimizer = adam(plain.parameters())
    for seed in range(3):
        result = session.step(loss_of(session, seed))
        plain(batch(seed)).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        assert result.applied
        assert result.grad_norm == pytest.approx(norm.item(), rel=1e-5)
    assert all(
        torch.allclose(a, b, atol=1e-6) for a, b in zip(session.model.parameters(), plain.parameters(), strict=True)
    )


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**40])
def test_a_loss_scale_changes_nothing_in_fp32(scale):
    a, b = build(clip_norm=0.5), build(clip_norm=0.5, loss_scale=scale)
    for seed in range(3):
        assert a.step(loss_of(a, seed)).grad_norm == b.step(loss_of(b, seed)).grad_norm
    assert same(weights(a), weights(b))


@pytest.mark.parametrize("zero_grad", [True, False])
def test_gradients_are_true_gradients_after_backward(zero_grad):
    session, plain = build(loss_scale=DYNAMIC), build()
    for seed in range(2):
        for part in range(3):
            session.backward(loss_of(session, 10 * seed + part))
            plain.backward(loss_of(plain, 10 * seed + part))
        for p, q in zip(session.model.parameters(), plain.model.parameters(), strict=True):
            assert torch.equal(p.grad, q.grad)
        session.step(zero_grad=zero_grad)
        plain.step(zero_grad=zero_grad)
        assert all((p.grad is None) == zero_grad for p in session.model.parameters())
    assert same(weights(session), weights(plain))


def test_a_users_own_clipping_between_backward_and_step_is_right():
    session, plain = build(loss_scale=DYNAMIC), build()
    for s in (session, plain):
        s.backward(loss_of(s))
        nn.utils.clip_grad_norm_(s.model.parameters(), 0.01)
    assert session.step().grad_norm == pytest.approx(0.01, rel=1e-3)
    plain.step()
    assert same(weights(session), weights(plain))


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("optimizer", [adam, lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)])
def test_a_skipped_step_changes_nothing(bad, optimizer):
    session = build(loss_scale=DYNAMIC, optimizer=optimizer)
    session.step(loss_of(session))
    before, state = weights(session), copy.deepcopy(session.optimizer.state_dict())
    result = session.step(loss_of(session) * bad)
    assert not result.applied
    assert not math.isfinite(result.grad_norm)
    assert same(before, weights(session))
    assert str(session.optimizer.state_dict()) == str(state)
    assert (session.applied, session.skipped) == (1, 1)
    assert result.loss_scale == 512.0
    assert session.step(loss_of(session)).applied


def poison(session, name, value):
    """A gradient that is bad in one place."""
    session.backward(loss_of(session))
    session.model.get_parameter(name).grad.view(-1)[0] = value


def test_the_reason_names_the_first_bad_parameter_in_backward_order():
    session = build("fp16")
    poison(session, "fc2.weight", math.inf)
    session.model.fc1.weight.grad[0, 0] = math.nan
    result = session.step()
    assert result.reason == (
        "skipped: inf in gradient of fc2.weight (and of 1 more), fp16 limit 65504; loss scale 65536 -> 32768"
    )
    told = [(e.name, e.site) for e in result.events]
    # What was written into a gradient by hand does not come again when the step is run again.
    assert told == [("skipped", "fc2.weight"), ("not reproduced", "")]
    assert result.events[0].message == result.reason
    assert str(result) == result.reason


@pytest.mark.parametrize(
    ("name", "loss_scale", "end"),
    [
        ("bf16", None, "skipped: NaN in gradient of fc1.bias"),
        ("fp16", 1024, "; loss scale stays 1024 (static): give a smaller one, or a dynamic one"),
        (
            "fp16",
            LossScale(kind="dynamic", initial=2.0**-24),
            "loss scale at its floor 2^-24: not the scale is at fault",
        ),
    ],
)
def test_every_kind_of_scale_tells_its_part(name, loss_scale, end):
    session = build(name, loss_scale=loss_scale)
    poison(session, "fc1.bias", math.nan)
    assert end in session.step().reason


def test_a_bad_loss_is_named():
    session = build("bf16")
    result = session.step(loss_of(session) * math.nan)
    assert result.reason.startswith("skipped: the loss is NaN; NaN in gradient of fc2.bias (and of 3 more)")
    assert result.skipped == {"optimizer": "NaN in gradient of fc2.bias (and of 3 more)"}


def test_an_infinite_loss_with_finite_gradients_is_applied():
    session = build()
    assert session.step(loss_of(session) + math.inf).applied


def test_parameters_without_gradients_are_left_alone():
    session = build()
    session.model.fc1.weight.requires_grad_(False)
    before = weights(session)
    assert session.step(loss_of(session)).applied
    assert torch.equal(before["fc1.weight"], session.model.fc1.weight)
    assert not torch.equal(before["fc2.weight"], session.model.fc2.weight)


@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_sparse_gradients(clip_norm):
    results = []
    for sparse in (True, False):
        torch.manual_seed(0)
        model = nn.Embedding(10, 3, sparse=sparse)
        session = prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), "fp32", loss_scale=DYNAMIC, clip_norm=clip_norm
        )
        for _ in range(2):
            session.backward(model(torch.tensor([1, 1, 2])).square().sum())
        norm = session.step().grad_norm
        skipped = session.step(model(torch.tensor([1])).sum() * math.inf)
        assert "inf in gradient of weight" in skipped.reason
        results.append((norm, model.weight.detach().clone()))
    assert results[0][0] == pytest.approx(results[1][0])
    assert torch.allclose(results[0][1], results[1][1])


def test_gradients_that_did_not_come_through_the_session_are_refused_only_where_it_matters():
    session = build(loss_scale=DYNAMIC)
    loss_of(session).backward()
    with pytest.raises(ValueError, match=r"replace loss\.backward\(\) by session\.backward\(loss\)"):
        session.step()
    plain = build("bf16")
    loss_of(plain).backward()
    assert plain.step().applied


def test_a_second_step_without_backward_is_refused():
    session = build(loss_scale=DYNAMIC)
    session.step(loss_of(session), zero_grad=False)
    with pytest.raises(ValueError, match="did not come through"):
        session.step()
    session.optimizer.zero_grad()
    result = session.step()
    assert not result.applied
    assert "no parameter of the optimizer has a gradient: call session.step(loss)" in result.reason


def test_what_cannot_be_backpropagated_is_refused():
    session = build()
    out = session.model(batch())
    for loss, message in ((out, "expected one number"), (out.detach().mean(), "no graph")):
        with pytest.raises(ValueError, match=message):
            session.backward(loss)
    with pytest.raises(TypeError, match="is a float"):
        session.backward(1.5)
    for call in (lambda: session.step(lambda: out.mean()), lambda: session.step(closure=lambda: out.mean())):
        with pytest.raises(ValueError, match="closures are not supported"):
            call()


def test_a_failed_backward_leaves_true_gradients():
    session = build(loss_scale=DYNAMIC)
    loss = loss_of(session)
    session.backward(loss)
    before = session.model.fc1.weight.grad.clone()
    with pytest.raises(RuntimeError, match="second time"):
        session.backward(loss)
    assert torch.equal(before, session.model.fc1.weight.grad)
    assert "before it reached a gradient" in session.events[-1].message
    assert session.step().applied


def test_gradients_of_a_skipped_step_can_be_seen_and_are_not_added_to():
    session = build(loss_scale=DYNAMIC)
    session.step(loss_of(session) * math.inf, zero_grad=False)
    assert not session.model.fc2.bias.grad.isfinite().all()
    session.backward(loss_of(session))
    assert session.model.fc2.bias.grad.isfinite().all()
    session.backward(loss_of(session))
    assert session.step().applied


def test_events_are_a_tuple_of_the_last_thousand():
    session = build()
    for _ in range(3):
        session.step(loss_of(session) * math.inf)
    assert isinstance(session.events, tuple)
    # One fault, told once.
    assert [event.name for event in session.events] == ["skipped", "loss fault", "skipped", "skipped"]
    session._events.extend(session.events * 400)
    assert len(session.events) == 1000


def test_a_skipped_step_gives_stochastic_bits_back():
    a, b = build("nvfp4"), build("nvfp4")
    a.step(loss_of(a, 0))
    b.step(loss_of(b, 0))
    random = a.state_dict()["random"]
    assert not a.step(loss_of(a, 1) * math.inf).applied
    assert torch.equal(a.state_dict()["random"], random)
    assert random[1] > 0
    a.step(loss_of(a, 2))
    b.step(loss_of(b, 2))
    assert same(weights(a), weights(b))


def test_a_skipped_step_gives_running_statistics_back():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    session.step(model(batch()[:, :2]).square().mean() + model(batch(1)[:, :2]).mean())
    before = {name: b.clone() for name, b in model.named_buffers()}
    assert before["1.num_batches_tracked"] == 2
    assert not session.step(model(torch.full((4, 2), math.inf)).square().mean()).applied
    assert all(torch.equal(b, before[name]) for name, b in model.named_buffers())
    with torch.no_grad():
        model[1].running_mean.fill_(7.0)  # as a loaded checkpoint would
    assert not session.step(model(torch.full((4, 2), math.inf)).square().mean()).applied
    assert model[1].running_mean.tolist() == [7.0] * 3
    assert session.step(model(batch()[:, :2]).square().mean()).applied
    assert model[1].running_mean.isfinite().all()
    session.restore()
    assert not model._forward_pre_hooks


def test_the_first_step_is_measured():
    session = build("bf16")
    session.step(loss_of(session))
    assert session.audit().share("bf16") == pytest.approx(1.0)


def test_masters_are_updated_and_gradients_accumulate_in_fp32():
    torch.manual_seed(0)
    model = Blocks().to(torch.bfloat16)
    session = prepare(model, adam(model.parameters()), "bf16", clip_norm=1.0)
    for seed in range(4):
        session.backward(loss_of(session, seed))
        session.backward(loss_of(session, seed))
        assert model.fc1.weight.grad.dtype == torch.float32
        assert session.step().applied
    masters = {name: kept["master"] for name, kept in session.state_dict()["kept"].items()}
    assert list(masters) == [name for name, _ in model.named_parameters()]
    for name, p in model.named_parameters():
        assert torch.equal(p, masters[name].to(torch.bfloat16))
        assert p.dtype == torch.bfloat16
    session.restore()
    assert {id(p) for p in session.optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    with pytest.raises(ValueError, match="was restored"):
        session.step()


def test_a_weight_written_from_outside_is_told_and_trained_on():
    model = nn.Linear(2, 1, bias=False).to(torch.bfloat16)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.0), "bf16")
    with torch.no_grad():
        model.weight.fill_(3.0)
    result = session.step(model(torch.ones(1, 2)).sum())
    assert [(e.name, e.site) for e in result.events] == [("master follows", "weight")]
    assert model.weight.tolist() == [[3.0, 3.0]]


def test_recipes_are_given_by_name_file_or_value(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(recipe("fp16").to_toml(), encoding="utf-8")
    for given in ("fp16", path, str(path), recipe("fp16")):
        assert build(given).recipe == recipe("fp16")
    assert build("fp16", loss_scale="none").recipe.loss_scale.kind == "none"
    assert build("auto").recipe.name in ("bf16", "fp16")


def test_a_session_prints_what_holds_and_what_was_told():
    session = build("auto", clip_norm=0.5)
    first, *notes = str(session).splitlines()
    assert first == f"session of recipe {session.recipe.name}: compute dtype bf16, no loss scale, clip norm 0.5"
    assert notes == [f"  note: {session.recipe.reason}"] == [f"  note: {note}" for note in session.notes]
    session.step(loss_of(session))
    session.step(loss_of(session) * math.nan)
    assert str(session).splitlines()[0].endswith("; steps: 1 applied, 1 skipped")
    assert "4 fp32 parameters were brought to bf16" in str(build("bf16-true"))
