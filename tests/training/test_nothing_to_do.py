"""Steps without a gradient, and gradients that were dropped: no error, and no trace."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from mixprec.specs import LossScale
from mixprec.training import Session, prepare

DYNAMIC = LossScale(kind="dynamic", initial=8.0, interval=3)


def build(recipe: str = "fp32", dtype: torch.dtype = torch.float32, norm: bool = True) -> Session:
    torch.manual_seed(0)
    layers = [nn.Linear(32, 64), *([nn.BatchNorm1d(64)] if norm else []), nn.ReLU(), nn.Linear(64, 32)]
    model = nn.Sequential(*layers).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return prepare(model, optimizer, recipe, loss_scale=DYNAMIC)


def loss_of(session: Session, seed: int) -> Tensor:
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(seed))
    return session.model(x).float().square().mean()


def state_of(session: Session) -> str:
    torch.set_printoptions(precision=17, threshold=10**6)
    try:
        return str((session.model.state_dict(), session.optimizer.state_dict(), session.state_dict()))
    finally:
        torch.set_printoptions(profile="default")


@pytest.mark.parametrize("zero_grad", [True, False])
def test_a_step_without_gradients_changes_nothing_and_is_told(zero_grad):
    session = build()
    session.step(loss_of(session, 0))
    before = state_of(session)
    result = session.step(zero_grad=zero_grad)
    assert not result.applied
    assert (
        result.reason
        == str(result)
        == result.skipped["optimizer"].replace("no parameter of it has a gradient", result.reason)
    )
    assert "no parameter of the optimizer has a gradient: call session.step(loss), or session.backward" in result.reason
    assert [e.name for e in result.events] == ["no gradient"]
    assert state_of(session) == before
    assert (session.applied, session.skipped) == (1, 0)


def test_a_loss_that_does_not_reach_the_parameters():
    session = build()
    session.step(loss_of(session, 0))
    before = state_of(session)
    aside = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        features = session.model(torch.randn(16, 32))
    result = session.step((features * aside).sum())
    assert "the loss does not reach its parameters" in result.reason
    assert aside.grad is not None
    assert state_of(session) == before  # the running statistics of that pass are given back too


def clear_session(session: Session) -> None:
    session.zero_grad()


def clear_optimizer(session: Session) -> None:
    session.optimizer.zero_grad()


def clear_model(session: Session) -> None:
    session.model.zero_grad()


def zero_optimizer(session: Session) -> None:
    session.optimizer.zero_grad(set_to_none=False)


def zero_model(session: Session) -> None:
    session.model.zero_grad(set_to_none=False)


@pytest.mark.parametrize("clear", [clear_session, clear_optimizer, clear_model, zero_optimizer, zero_model])
@pytest.mark.parametrize(("recipe", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
@pytest.mark.parametrize("bad", [False, True])
def test_a_dropped_window_leaves_no_trace_in_the_next_step(clear, recipe, dtype, bad):
    a, b = build(recipe, dtype, norm=False), build(recipe, dtype, norm=False)
    for session in (a, b):
        session.step(loss_of(session, 0))
    for i in range(2):
        a.backward(loss_of(a, 1 + i) * (float("inf") if bad and i else 1.0), name="dropped")
    clear(a)
    for session in (a, b):
        session.backward(loss_of(session, 5))
    results = [session.step() for session in (a, b)]
    assert results[0].applied
    assert results[0].grad_norm == results[1].grad_norm
    assert a._scales.state("dropped") == b._scales.state("dropped")
    assert a._scales.state("loss") == b._scales.state("loss")
    assert all(map(torch.equal, a.model.parameters(), b.model.parameters()))


@pytest.mark.parametrize("clear", [clear_session, clear_optimizer, clear_model])
def test_a_step_right_after_a_dropped_window_has_nothing_to_do(clear):
    session = build()
    session.backward(loss_of(session, 0) * float("nan"))
    clear(session)
    result = session.step()
    assert not result.applied
    assert "has a gradient" in result.reason
    assert (session.skipped, session.loss_scale) == (0, 8.0)


def test_a_window_dropped_by_the_session_gives_statistics_and_random_bits_back():
    a, b = build("nvfp4"), build("nvfp4")
    for session in (a, b):
        session.step(loss_of(session, 0))
    a.backward(loss_of(a, 1))
    a.zero_grad()
    assert state_of(a) == state_of(b)
    for session in (a, b):
        session.step(loss_of(session, 2))
    assert state_of(a) == state_of(b)


def test_zero_grad_between_forward_and_backward_is_harmless():
    a, b = build("nvfp4"), build("nvfp4")
    for i in range(2):
        loss = loss_of(a, i)
        a.zero_grad()
        a.step(loss)
        b.step(loss_of(b, i))
    assert state_of(a) == state_of(b)


def test_clipping_between_micro_batches_is_not_taken_for_clearing():
    session, plain = build(norm=False), build(norm=False)
    plain = copy.deepcopy(session.model)
    for i in range(2):
        session.backward(loss_of(session, i))
        nn.utils.clip_grad_norm_(session.model.parameters(), 1e-3)
        x = torch.randn(16, 32, generator=torch.Generator().manual_seed(i))
        plain(x).square().mean().backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1e-3)
    for p, q in zip(session.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-9)
    assert session.step().applied
    assert session.loss_scale_state.good_steps == 1
