"""Several losses: each has its own scale, and only the one that overflowed shrinks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from mixprec.specs import LossScale
from mixprec.training import Session, prepare

DYNAMIC = LossScale(kind="dynamic", initial=8.0, interval=2)
INF = math.inf


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p, self.q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))


def build(**options: object) -> Session:
    model = Two()
    return prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", **{"loss_scale": DYNAMIC, **options})


def scales(session: Session) -> dict[str, float]:
    return {name: session._scales.scale(name) for name in session._scales.names}


def both(model: nn.Module) -> Tensor:
    return model.p.sum() + model.q.sum()


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("bad", ["a", "b"])
def test_only_the_one_that_overflowed_shrinks(bad, order):
    session = build()
    for name in order:
        session.backward(both(session.model) * (INF if name == bad else 1.0), name=name)
    result = session.step()
    good = "ab".replace(bad, "")
    assert not result.applied
    assert scales(session) == {"loss": 8.0, bad: 4.0, good: 8.0} == dict(result.loss_scales)
    assert f"loss scale of '{bad}' 8 -> 4" in result.reason


def test_both_shrink_where_each_has_spoilt_parameters_of_its_own():
    session = build()
    session.backward(session.model.p.sum() * INF, name="a")
    session.backward(session.model.q.sum() * INF, name="b")
    assert not session.step().applied
    assert scales(session) == {"loss": 8.0, "a": 4.0, "b": 4.0}


def test_micro_batches_of_two_losses_in_turn():
    session = build()
    for i in range(3):
        session.backward(both(session.model), name="a")
        session.backward(both(session.model) * (math.nan if i == 1 else 1.0), name="b")
    assert not session.step().applied
    assert scales(session) == {"loss": 8.0, "a": 8.0, "b": 4.0}


def test_each_grows_with_the_steps_that_it_was_in():
    session = build()
    for i in range(4):
        session.backward(both(session.model), name="a")
        if i % 2:
            session.backward(both(session.model), name="b")
        assert session.step().applied
    assert scales(session) == {"loss": 8.0, "a": 32.0, "b": 16.0}


def test_gradients_are_those_of_the_sum_whatever_the_scales_are():
    session = build(loss_scale={"loss": 2.0**10, "a": 2.0**-3, "b": "none"})
    plain = Two()
    for factor, name in ((0.3, "loss"), (0.7, "a"), (0.11, "b"), (1.9, "a")):
        session.backward((session.model.p * factor).square().sum(), name=name)
        (plain.p * factor).square().sum().backward()
    assert torch.equal(session.model.p.grad, plain.p.grad)
    assert scales(session) == {"loss": 1024.0, "a": 0.125, "b": 1.0}


def test_the_step_of_a_loss_with_a_name_reads_and_tells_its_scale():
    session = build(loss_scale={"adv": LossScale(kind="dynamic", initial=4.0)})
    result = session.step(both(session.model) * INF, name="adv")
    assert (result.loss_scale, session.loss_scale) == (2.0, 1.0)


def test_an_alarm_and_a_floor_name_nothing_else_than_their_loss():
    session = build(loss_scale={"adv": LossScale(kind="dynamic", initial=2.0**-23, alarm_after=3)})
    for _ in range(3):
        session.backward(session.model.p.sum())
        session.backward(session.model.q.sum() * INF, name="adv")
        session.step()
    # Losses that do not come through the model's outputs cannot be run again.
    names = [e.name for e in session.events if e.name not in ("skipped", "not reproduced")]
    assert names == ["loss scale floor", "loss scale alarm"]
    assert session._scales.state("loss").skipped_in_row == 0


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_a_nan_streak_of_thousands_of_steps_leaves_a_scale_that_works(kind):
    session = build(loss_scale=LossScale(kind=kind, alarm_after=5))
    for _ in range(2000):
        session.step(session.model.p.sum() * math.nan)
    names = [e.name for e in session._events if e.name != "skipped"]
    assert session.loss_scale == (1.0 if kind == "none" else 2.0**-24)
    assert session.skipped == 2000
    assert not names  # told long ago, among the first of 2,000 events
    assert session.step(session.model.p.sum()).applied


@pytest.mark.parametrize("wrong", ["", 3, None])
def test_names_of_losses_are_texts(wrong):
    session = build()
    with pytest.raises(TypeError, match="the name of a loss is"):
        session.backward(both(session.model), name=wrong)


def test_a_scale_of_a_loss_that_rounds_is_refused():
    with pytest.raises(ValueError, match="expected a power of two"):
        build(loss_scale={"adv": 1000.0})


def test_a_result_prints_the_scales_of_the_losses_in_it():
    model = nn.Linear(2, 1)
    session = prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale={"a": 8.0, "b": 4.0}, process_group=None
    )
    for name in ("a", "b"):
        session.backward(model(torch.ones(4, 2)).square().mean(), name=name)
    result = session.step()
    assert result.losses == ("a", "b")
    assert str(result).endswith("loss scale of 'a' 8, loss scale of 'b' 4")
    assert "65536" not in str(result)
    assert str(session.step(model(torch.ones(4, 2)).square().mean())).endswith("loss scale of 'loss' 65536")


def test_a_loss_that_no_step_was_taken_with_is_unknown_again():
    model = nn.Linear(2, 1)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", process_group=None)
    session.backward(model(torch.ones(4, 2)).square().mean(), name="a")
    assert list(session.loss_scales) == ["loss", "a"]
    session.zero_grad()
    assert list(session.loss_scales) == ["loss"]
    session.step(model(torch.ones(4, 2)).square().mean(), name="b")
    session.zero_grad()
    assert list(session.loss_scales) == ["loss", "b"]
