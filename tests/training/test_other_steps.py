"""The optimizer's own step beside a session whose optimizer holds masters: refused, with what to call."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from mixprec.training import prepare


class Lookahead(torch.optim.Optimizer):
    """A wrapper that steps the optimizer in it, as published ones do."""

    def __init__(self, inner):
        self.inner = inner
        super().__init__([p for group in inner.param_groups for p in group["params"]], {"lr": 0.1})
        self.param_groups, self.state = inner.param_groups, inner.state

    def step(self, closure=None):
        self.inner.step()

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none=set_to_none)


class BareLookahead(Lookahead):
    """One that leaves out ``Optimizer.__init__``, and so has no hooks."""

    def __init__(self, inner):
        self.inner, self.defaults = inner, inner.defaults
        self.param_groups, self.state = inner.param_groups, inner.state

    def step(self, closure=None):
        self.inner.step()


def build(name, wrap=lambda inner: inner, dtype=torch.bfloat16):
    torch.manual_seed(0)
    model = nn.Linear(8, 4).to(dtype)
    return prepare(model, wrap(torch.optim.SGD(model.parameters(), lr=0.5)), name)


def loss_of(session):
    return session.model(torch.ones(2, 8, dtype=session.model.weight.dtype)).float().square().mean()


@pytest.mark.parametrize("name", ["bf16", "bf16-split", "bf16-kahan", "bf16-sr"])
def test_a_step_of_the_optimizer_alone_is_refused(name):
    session = build(name)
    before = session.model.weight.detach().clone()
    loss_of(session).backward()
    with pytest.raises(RuntimeError, match=r"SGD.step\(\) was called beside the session.*call session.step\(loss\)"):
        session.optimizer.step()
    session.zero_grad()
    assert torch.equal(session.model.weight, before)
    assert session.step(loss_of(session)).applied
    assert not torch.equal(session.model.weight, before)


@pytest.mark.parametrize("wrapper", [BareLookahead, Lookahead])
def test_wrappers_step_what_they_wrap_within_the_sessions_step_only(wrapper):
    session = build("bf16-split", wrapper)
    for _ in range(2):
        before = session.model.weight.detach().clone()
        assert session.step(loss_of(session)).applied
        assert not torch.equal(session.model.weight, before)
    with pytest.raises(RuntimeError, match="was called beside the session"):
        session.optimizer.inner.step()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
def test_optimizers_are_copied_and_the_session_goes_on(copied):
    session = build("bf16")
    session.step(loss_of(session))
    other = copied(session.optimizer)
    masters = other.param_groups[0]["params"]
    for master in masters:
        master.grad = torch.ones_like(master)
    other.step()  # its masters are its own
    assert session.step(loss_of(session)).applied


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.float32), ("bf16-true", torch.bfloat16)])
def test_an_optimizer_that_holds_the_models_own_parameters_steps_as_ever(name, dtype):
    session = build(name, dtype=dtype)
    before = session.model.weight.detach().clone()
    loss_of(session).backward()
    session.optimizer.step()
    assert not torch.equal(session.model.weight, before)


def test_restore_frees_the_optimizer():
    session = build("bf16-split")
    session.restore()
    loss_of(session).backward()
    session.optimizer.step()
