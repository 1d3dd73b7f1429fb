"""A session's state: bit-identical resumption, weights_only, refusals."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from mixprec.specs import LossScale
from mixprec.training import prepare

SCALE = LossScale(kind="dynamic", initial=2.0**8, interval=3)


def build(dtype=torch.float32, recipe="fp32", loss_scale=SCALE, out=1):
    torch.manual_seed(0)
    model = nn.Linear(2, out).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return prepare(model, optimizer, recipe, loss_scale=loss_scale)


def run(session, iterations):
    trace = []
    for i in iterations:
        loss = session.model(torch.ones(4, 2)).float().square().mean()
        session.step(loss * float("inf") if i == 1 else loss)
        trace.append((session.loss_scale_state.scale, session.loss_scale_state.good_steps))
    return trace


def saved(session):
    file = io.BytesIO()
    parts = {"model": session.model, "optimizer": session.optimizer, "session": session}
    torch.save({name: part.state_dict() for name, part in parts.items()}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def load(session, state, order=("model", "optimizer", "session")):
    parts = {"model": session.model, "optimizer": session.optimizer, "session": session}
    for name in order:
        parts[name].load_state_dict(state[name])


@pytest.mark.parametrize("order", [("model", "optimizer", "session"), ("session", "optimizer", "model")])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    ("dtype", "recipe"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.float16, "fp16")]
)
def test_a_run_resumes_bit_for_bit(dtype, recipe, used, order):
    whole = build(dtype, recipe)
    assert run(whole, range(4)) == [(256, 1), (128, 0), (128, 1), (128, 2)]
    state = saved(whole)
    rest = run(whole, range(4, 8))
    assert rest == [(256, 0), (256, 1), (256, 2), (512, 0)]
    resumed = build(dtype, recipe)
    if used:
        run(resumed, range(3))
    load(resumed, state, order)
    assert (resumed.loss_scale_state.scale, resumed.loss_scale_state.good_steps) == (128, 2)
    assert (resumed.applied, resumed.skipped) == (3, 1)
    assert run(resumed, range(4, 8)) == rest
    assert torch.equal(whole.model.weight, resumed.model.weight)
    assert str(whole.state_dict()) == str(resumed.state_dict())
    assert not [e for e in resumed.events if e.name == "master follows"]


def test_a_model_state_loads_with_and_without_the_session():
    session = build(torch.bfloat16, "bf16")
    run(session, range(3))
    plain = nn.Linear(2, 1).to(torch.bfloat16)
    plain.load_state_dict(session.model.state_dict())
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(session.optimizer.state_dict())
    assert torch.equal(plain.weight, session.model.weight)


def test_states_of_other_sessions_are_refused():
    session = build(torch.bfloat16, "bf16")
    before = str(session.state_dict())
    for state, message in (
        (build(torch.float16, "fp16").state_dict(), r"fp16, the session has bf16.*\n  compute_dtype: fp16 -> bf16\n"),
        (build(torch.bfloat16, "bf16", "none").state_dict(), r"\n  loss_scale.kind: none -> dynamic\n"),
        (build(torch.float32, "bf16").state_dict(), r"weights \(bias, weight\): nothing -> master \[1\]"),
        (build(torch.bfloat16, "bf16", out=2).state_dict(), r"weights \(bias, weight\): master \[2\] -> master \[1\]"),
        (session.model.state_dict(), "expected what Session.state_dict"),
    ):
        with pytest.raises(ValueError, match=message):
            session.load_state_dict(state)
        assert str(session.state_dict()) == before


def test_the_stochastic_offset_is_part_of_the_state():
    a, b = build(recipe="nvfp4"), build(recipe="nvfp4")
    run(a, range(2, 4))
    load(b, saved(a))
    assert torch.equal(a.state_dict()["random"], b.state_dict()["random"])
    assert a.state_dict()["random"][1] > 0
