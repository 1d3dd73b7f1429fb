"""A loss that is not finite, though all gradients are: applied as torch's own scaler does, and never silent."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mixprec.monitor import Monitoring
from mixprec.records import EventRecord, FindingRecord, StepRecord, read_records
from mixprec.training import prepare


def build(run=None, **options):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), "fp32", run=run, **options)


def loss_of(session, constant=0.0):
    return session.model(torch.ones(4, 2)).square().mean() + constant


@pytest.mark.parametrize("constant", [math.inf, -math.inf, math.nan])
def test_it_is_applied_and_told_and_located(constant):
    session = build()
    before = session.model.weight.detach().clone()
    result = session.step(loss_of(session, constant))
    assert result.applied
    assert not torch.equal(session.model.weight, before)
    told = {event.name: event for event in result.events}
    kind = "NaN" if math.isnan(constant) else "inf" if constant > 0 else "-inf"
    assert told["loss not finite"].message.startswith(
        f"fault: the loss is {kind}, and all gradients are finite: the step was applied"
    )
    assert told["loss fault"].site == "<loss>"
    assert f"{kind} in <loss>" in told["loss fault"].message
    assert [f.name for f in session.findings] == ["loss not finite", "loss fault"]


def test_nobody_need_watch():
    session = build(monitor=None)
    (event,) = session.step(loss_of(session, math.inf)).events
    assert event.name == "loss not finite"


def test_once_until_it_was_finite_again(tmp_path):
    session = build(tmp_path)
    for constant in (0.0, math.inf, math.inf, math.inf, *([0.0] * 40), math.nan, math.nan):
        assert session.step(loss_of(session, constant)).applied
    records = read_records(tmp_path / "records.jsonl")
    for kind in (EventRecord, FindingRecord):
        assert [r.step for r in records if isinstance(r, kind) and r.name == "loss not finite"] == [1, 44]
        assert [r.step for r in records if isinstance(r, kind) and r.name == "loss fault"] == [1, 44]
    assert all(r.applied for r in records if isinstance(r, StepRecord))


def test_a_fault_inside_of_the_model_is_found_there():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(2, 1), nn.Identity()

        def forward(self, x):
            y = self.layer(x)
            return y, self.scale(torch.log(y.detach() * 0))

    torch.manual_seed(0)
    model = Adds()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), "fp32")
    y, penalty = model(torch.ones(4, 2))
    result = session.step(y.square().mean() - penalty.mean())
    assert result.applied
    (located,) = [f for f in session.findings if f.evidence.get("reason")]
    assert (located.name, located.evidence["operation"]) == ("log or division of a zero", "log")


def test_masks_of_infinities_among_the_outputs_are_not_blamed():
    class Masks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def forward(self, x):
            return self.layer(x).masked_fill(torch.tensor([False, False, True]), -math.inf)

    torch.manual_seed(0)
    model = Masks()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), "fp32")
    session.step(nn.functional.cross_entropy(model(torch.ones(4, 2)), torch.zeros(4, dtype=torch.long)) + math.inf)
    (located,) = [f for f in session.findings if f.evidence.get("reason")]
    assert (located.name, located.site) == ("loss fault", "<loss>")


def test_a_session_that_locates_it_by_a_closure_names_the_operation():
    session = build()
    x = torch.zeros(4)
    fault = session.locate(lambda: loss_of(session) - torch.log(x).mean())
    assert (fault.site, fault.operation) == ("<loss>", "log")


def test_several_losses_are_told_by_name():
    session = build(monitor=Monitoring(every=0, alarms=False, recorder_steps=0))
    session.backward(loss_of(session), "main")
    session.backward(loss_of(session, math.inf), "adv")
    result = session.step()
    assert result.applied
    (event,) = [e for e in result.events if e.name == "loss not finite"]
    assert "the loss 'adv' is inf" in event.message
