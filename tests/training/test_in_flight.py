"""Clearing gradients, saving and skipping around a forward pass that is in flight: it loses nothing."""

import math

import pytest
import torch
from torch import nn

from mixprec import prepare
from mixprec.specs import recipe


def build(name="fp4-all-the-way"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Linear(32, 1))
    chosen = recipe(name, engine="emulated")
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), chosen, process_group=None)


def forward(session, i):
    x = torch.randn(32, 32, generator=torch.Generator().manual_seed(i))
    return session.model(x).square().mean()


def state(session):
    found = {name: value.clone() for name, value in session.model.state_dict().items()}
    return {**found, "random": session._conversion.random_state()}


def same(a, b):
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


def model_clears(session):
    session.model.zero_grad()


def optimizer_clears(session):
    session.optimizer.zero_grad()


def session_clears(session):
    session.zero_grad()


@pytest.mark.parametrize("clear", [session_clears, optimizer_clears, model_clears])
def test_every_place_to_clear_gradients_gives_the_same_run(clear):
    want, session = build(), build()
    for i in range(4):
        bad = math.inf if i == 2 else 1.0
        want.step(forward(want, i) * bad)
        clear(session)
        loss = forward(session, i) * bad
        clear(session)
        session.backward(loss)
        session.step(zero_grad=i != 1)
        clear(session)
        assert same(state(session), state(want))


@pytest.mark.parametrize("name", ["fp4-all-the-way", "fp32"])
def test_clearing_keeps_what_a_forward_pass_in_flight_has_changed(name):
    session, plain = build(name), build(name)
    session.backward(forward(session, 0))
    loss = forward(session, 1)
    after = state(session)
    session.zero_grad()
    assert same(state(session), after)
    session.step(loss)
    forward(plain, 0)
    plain.step(forward(plain, 1))
    assert same(state(session), state(plain))


def test_clearing_between_two_losses_of_one_graph_keeps_it():
    session, plain = build(), build()
    loss = forward(session, 0)
    session.backward(loss * 2.0, retain_graph=True)
    session.zero_grad()
    session.step(loss)
    plain.step(forward(plain, 0))
    assert same(state(session), state(plain))


def test_dropping_what_was_backpropagated_gives_it_back():
    session = build()
    session.step(forward(session, 0))
    before = state(session)
    session.backward(forward(session, 1))
    session.zero_grad()
    assert same(state(session), before)


def test_a_forward_pass_without_a_step_before_a_save_is_the_same_in_both_runs(tmp_path):
    session = build()
    session.step(forward(session, 0))
    forward(session, 1)
    session.save(tmp_path)
    again = build()
    again.resume(tmp_path)
    for one in (session, again):
        assert not one.step(forward(one, 2) * math.inf).applied
    assert same(state(session), state(again))
    for one in (session, again):
        assert one.step(forward(one, 3)).applied
    assert same(state(session), state(again))
