"""A session tells those who watch it, in order, and hears what they find."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mixprec.monitor import Finding, Monitoring
from mixprec.records import EventRecord, FindingRecord, read_records
from mixprec.training import prepare


class Watch:
    """Notes what it is told, and the state of the world at that moment."""

    def __init__(self, world=lambda facts: None):
        self.told, self.world = [], world

    def begin_backward(self, loss, name, scale):
        self.told.append(("begin_backward", name, scale))

    def end_backward(self):
        self.told.append(("end_backward",))

    def before_update(self, facts):
        self.told.append(("before_update", facts.step, self.world(facts)))

    def after_update(self, facts):
        self.told.append(("after_update", facts.step, self.world(facts)))
        return ()

    def skipped(self, facts):
        self.told.append(("skipped", facts.step, self.world(facts)))
        return (Finding(step=facts.step, name="planted", severity="fault", message="it broke", site="weight"),)

    def dropped(self):
        self.told.append(("dropped",))

    def failed(self, error):
        self.told.append(("failed", type(error).__name__))

    def close(self):
        self.told.append(("close",))


def build(watch, recipe="fp32", **options):
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    monitor = Monitoring(every=0, alarms=False, locate=False, recorder_steps=0, watches=(watch,))
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.25), recipe, monitor=monitor, **options)


def loss_of(session, factor=1.0):
    return session.model(torch.ones(4, 2)).mean() * factor


def test_an_applied_step_is_told_around_its_update():
    watch = Watch(lambda facts: facts.parameters["weight"].tolist())
    session = build(watch)
    session.backward(loss_of(session, 0.5))
    session.backward(loss_of(session, 0.5))
    session.step()
    pair = [("begin_backward", "loss", 1.0), ("end_backward",)]
    assert watch.told == [*pair, *pair, ("before_update", 0, [[1.0, 1.0]]), ("after_update", 0, [[0.75, 0.75]])]


def test_facts_of_a_step_are_true_and_scaled():
    seen = []
    watch = Watch(seen.append)
    session = build(watch, "fp16", loss_scale=8.0, clip_norm=0.1)
    session.step(loss_of(session))
    facts = seen[0]
    assert facts.losses == (("loss", 2.0),)
    assert facts.norms["weight"] == pytest.approx(math.sqrt(2.0))
    assert facts.grad_norm == pytest.approx(math.sqrt(2.0))
    assert (facts.is_finite, facts.loss_scales) == (True, {"loss": 8.0})
    assert facts.scale == 8.0


def test_a_skipped_step_is_told_before_anything_is_given_back():
    norm = nn.BatchNorm1d(1)
    watch = Watch(lambda facts: (norm.running_mean.tolist(), facts.gradients["0.weight"].isfinite().all().item()))
    model = nn.Sequential(nn.Linear(2, 1), norm)
    monitor = Monitoring(every=0, alarms=False, locate=False, recorder_steps=0, watches=(watch,))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.25), "fp32", monitor=monitor)
    result = session.step(model(torch.full((4, 2), math.inf)).mean())
    assert not result.applied
    (skipped,) = [told for told in watch.told if told[0] == "skipped"]
    assert not math.isfinite(skipped[2][0][0])
    assert skipped[2][1] is False
    assert norm.running_mean.tolist() == [0.0]


def test_findings_become_events_and_records(tmp_path):
    session = build(Watch(), run=tmp_path, seed=5)
    result = session.step(loss_of(session, math.nan))
    (event,) = [e for e in result.events if e.name == "planted"]
    assert (event.site, event.message) == ("weight", "fault: weight: it broke")
    assert [f.name for f in session.findings] == ["planted"]
    records = read_records(tmp_path / "records.jsonl")
    (found,) = [r for r in records if isinstance(r, FindingRecord)]
    assert (found.recipe, found.seed, found.step, found.severity) == ("fp32", 5, 0, "fault")
    assert [r.name for r in records if isinstance(r, EventRecord)] == ["skipped", "planted"]


def test_dropped_failed_and_closed():
    watch = Watch()
    session = build(watch)
    session.backward(loss_of(session))
    session.zero_grad()
    loss = loss_of(session)
    session.backward(loss)
    with pytest.raises(RuntimeError, match="second time"):
        session.backward(loss)
    session.restore()
    session.restore()
    names = [told[0] for told in watch.told]
    assert names == [
        "begin_backward", "end_backward", "dropped", "begin_backward", "end_backward", "begin_backward", "failed",
        "close",
    ]  # fmt: skip


def test_nothing_is_watched_where_none_is_asked_for(tmp_path):
    model = nn.Linear(2, 1)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", monitor=None, run=tmp_path)
    session.step(loss_of(session, math.nan))
    assert session.findings == ()
    assert not [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, FindingRecord)]


def test_a_monitor_that_is_none_is_refused():
    model = nn.Linear(2, 1)
    with pytest.raises(TypeError, match=r"prepare: monitor is 'runs/a' \(str\), expected a mixprec.monitor.Monitoring"):
        prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", monitor="runs/a")
