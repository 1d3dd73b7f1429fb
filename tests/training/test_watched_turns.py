"""Optimizers of a session that step by turns: sampling, alarms, locator and recorder serve each of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mixprec.monitor import Monitoring
from mixprec.monitor.doctor import diagnose
from mixprec.records import StatisticsRecord, StepRecord, UpdateRecord, find_dumps, read_dump, read_records
from mixprec.specs import LossScale
from mixprec.training import prepare


def gan():
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "g": nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)),
            "d": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        }
    )


def session_of(model, run=None, recipe="fp32", monitor=None, **options):
    optimizers = {name: torch.optim.SGD(model[name].parameters(), lr=0.01) for name in "gd"}
    return prepare(model, optimizers, recipe, run=run, monitor=monitor or Monitoring(), **options)


def turn(session, name, factor=1.0):
    model = session.model
    if name == "d":
        loss = nn.functional.softplus(-model["d"](torch.randn(8, 4))).mean()
    else:
        loss = nn.functional.softplus(-model["d"](model["g"](torch.randn(8, 3)))).mean()
    return session.step(loss * factor, optimizer=name, name=name)


def of(run, kind):
    return [record for record in read_records(run / "records.jsonl") if isinstance(record, kind)]


@pytest.mark.parametrize("every", [2, 3])
def test_each_optimizer_is_sampled_by_its_own_steps(tmp_path, every):
    session = session_of(gan(), tmp_path, monitor=Monitoring(every=every))
    for _ in range(6):
        turn(session, "d")
        turn(session, "g")
    updates = of(tmp_path, UpdateRecord)
    own = range(0, 6, every)
    assert {u.step for u in updates if u.site.startswith("d")} == {2 * i for i in own}
    assert {u.step for u in updates if u.site.startswith("g")} == {2 * i + 1 for i in own}
    backward = {(r.step, r.site[0]) for r in of(tmp_path, StatisticsRecord) if r.role == "grad_output"}
    assert {step for step, part in backward if part == "g"} == {2 * i + 1 for i in own}
    assert len(of(tmp_path, StepRecord)) == 12


def test_hooks_do_not_wait_for_an_optimizer_that_never_steps():
    model = gan()
    session = session_of(model, monitor=Monitoring(every=100, alarms=False, recorder_steps=0, locate=False))
    for _ in range(20):
        turn(session, "d")
    assert not any(module._forward_hooks for module in model.modules())


def test_a_shared_backward_pass_serves_the_second_optimizer_too(tmp_path):
    """Its gradients are of passes before the first one's step: located all the same, and recorded with their batch."""
    model = gan()
    session = session_of(model, tmp_path, loss_scale=LossScale(kind="dynamic", initial=8.0))
    model["g"][0].weight.register_hook(lambda grad: grad * math.inf if is_bad else grad)
    for is_bad in (False, True):
        session.backward(nn.functional.softplus(-model["d"](model["g"](torch.randn(8, 3)))).mean())
        assert session.step(optimizer="d").applied
        assert session.step(optimizer="g").applied != is_bad
    assert not [e for e in session.events if "compiled" in e.message]
    entries = read_dump(find_dumps(tmp_path)[-1]).steps
    assert [(e.step, e.outcome, len(e.batches), list(e.losses)) for e in entries] == [
        (0, "applied", 2, ["loss"]), (1, "applied", 2, ["loss"]), (2, "applied", 2, ["loss"]),
        (3, "skipped", 2, ["loss"]),
    ]  # fmt: skip


def test_a_bad_generator_is_told_once_though_the_discriminator_steps_between(tmp_path):
    model = gan()
    session = session_of(model, tmp_path)
    for i in range(6):
        assert turn(session, "d").applied
        assert turn(session, "g", factor=math.inf if i > 1 else 1.0).applied == (i < 2)
    located = [f for f in session.findings if f.evidence.get("reason")]
    assert [(f.step, f.site) for f in located] == [(5, "<loss> (grad_output)")]
    assert len(find_dumps(tmp_path)) == 1


def test_alternating_losses_are_no_spikes(tmp_path):
    model = gan()
    session = session_of(model, tmp_path)
    torch.manual_seed(0)
    for i in range(60):
        for name, value in (("d", 1.0), ("g", 100.0))[: 1 + (i % 3 == 0)]:
            loss = model[name](torch.ones(4, 4 if name == "d" else 3)).mean() * 1e-3
            session.step(loss - loss.detach() + value * (1 + 0.01 * torch.rand(())), optimizer=name, name=name)
    assert not [f for f in session.findings if f.name.startswith("loss")]


def test_weights_that_do_not_move_are_told_of_each_of_three():
    model = nn.ModuleDict({name: nn.LayerNorm(4, bias=False) for name in "abc"}).to(torch.bfloat16)
    optimizers = {name: torch.optim.Adam(model[name].parameters(), lr=1e-3) for name in "abc"}
    session = prepare(model, optimizers, "bf16-true")
    told = []
    for _ in range(20):
        for name in "abc":
            model[name].weight.grad = torch.full((4,), 0.1, dtype=torch.bfloat16)
            told += [e.site for e in session.step(optimizer=name).events if e.name == "update too small"]
    assert told == ["a.weight", "b.weight", "c.weight"]


def test_the_doctor_reads_each_turns_curve_for_itself(tmp_path):
    model = gan()
    session = session_of(model, tmp_path)
    torch.manual_seed(0)
    for i in range(108):
        for name, value in (("d", 1.0), ("g", 100.0))[: 1 + (i % 2 == 0)]:
            spike = 50.0 if (i, name) == (104, "g") else 1.0
            loss = model[name](torch.ones(4, 4 if name == "d" else 3)).mean() * 1e-3
            level = value * spike * (1 + 0.01 * torch.rand(()))
            session.step(loss - loss.detach() + level, optimizer=name, name=name)
    steps = of(tmp_path, StepRecord)
    assert [step.turn for step in steps[:4]] == ["d: d", "g: g", "d: d", "d: d"]
    assert [list(step.losses.items()) for step in steps[:4]] == [
        [(name, steps[i].loss)] for i, name in enumerate(("d", "g", "d", "d"))
    ]
    number = next(step.step for step in steps if step.loss > 1000)
    found = [(d.finding.name, d.finding.step) for d in diagnose(tmp_path).findings if "loss" in d.finding.name]
    assert found == [("loss spike", number)]
