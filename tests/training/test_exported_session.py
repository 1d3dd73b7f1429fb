"""A session hands its records to exporters as they are made."""

from __future__ import annotations

import io
import math

import pytest
import torch
from torch import nn

from mixprec.monitor import Finding, Monitoring
from mixprec.monitor.export import JsonLinesExporter, WandbExporter
from mixprec.records import FindingRecord, StatisticsRecord, StepRecord, UpdateRecord, read_records, record_line
from mixprec.training import prepare


class Kept:
    """An exporter that keeps what it takes."""

    def __init__(self) -> None:
        self.records, self.closed = [], 0

    def take(self, record) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.closed += 1


def trained(exporters, recipe="fp16", steps=2, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    monitor = Monitoring(every=1, recorder_steps=0, exporters=exporters, **options)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.25), recipe, seed=7, monitor=monitor)
    losses = []
    for i in range(steps):
        loss = session.model(torch.ones(8, 4)).square().mean() * (math.inf if i == 1 else 1.0)
        losses.append(loss.item())
        session.step(loss)
    return session, losses


def test_steps_come_first_then_what_was_sampled_in_them():
    kept = Kept()
    _, losses = trained((kept,))
    steps = [record for record in kept.records if isinstance(record, StepRecord)]
    assert [(s.recipe, s.seed, s.step, s.applied) for s in steps] == [("fp16", 7, 0, True), ("fp16", 7, 1, False)]
    assert steps[0].loss == pytest.approx(losses[0])
    assert steps[0].loss_scale == steps[1].loss_scale == 65536.0
    assert 0 < steps[0].seconds < 60
    assert kept.records[0] is steps[0]
    sampled = [record for record in kept.records if isinstance(record, StatisticsRecord)]
    assert {("0", "input", "fp16"), ("2", "weight", "fp16")} <= {(r.site, r.role, r.cast) for r in sampled}
    assert [r for r in kept.records if isinstance(r, UpdateRecord)]


def test_a_recipe_without_a_loss_scale_tells_none():
    kept = Kept()
    trained((kept,), "bf16", steps=1)
    assert [r.loss_scale for r in kept.records if isinstance(r, StepRecord)] == [None]


def test_an_exporter_that_fails_does_not_end_the_training():
    class Broken(Kept):
        def take(self, record) -> None:
            raise ConnectionError("the server is gone")

    broken, out = Broken(), io.StringIO()
    with pytest.warns(RuntimeWarning, match="Broken failed and gets no more records"):
        session, _ = trained((broken, JsonLinesExporter(out)), steps=3)
    assert session.applied == 2
    assert out.getvalue().count('"type": "step"') == 3
    assert broken.closed == 1


class Finder(Kept):
    """A watch that finds something in a skipped step."""

    def begin_backward(self, loss, name, scale) -> None: ...

    def end_backward(self) -> None: ...

    def before_update(self, facts) -> None: ...

    def after_update(self, facts):
        return ()

    def skipped(self, facts):
        return (Finding(step=facts.step, name="planted", severity="fault", message="it broke"),)

    def dropped(self) -> None: ...

    def failed(self, error) -> None: ...


def test_findings_reach_them_and_the_end_closes_them():
    kept = Kept()
    session, _ = trained((kept,), watches=(Finder(),))
    found = [(r.recipe, r.seed, r.name) for r in kept.records if isinstance(r, FindingRecord)]
    assert ("fp16", 7, "planted") in found
    assert kept.closed == 0
    session.restore()
    session.restore()
    assert kept.closed == 1


def test_what_is_no_exporter_is_refused_when_it_is_given():
    with pytest.raises(TypeError, match=r"Monitoring: exporters: got 'wandb' of type str"):
        Monitoring(exporters=("wandb",))
    with pytest.raises(TypeError, match=r"has no log"):
        Monitoring(exporters=(WandbExporter(None),))


def test_folder_and_exporters_hear_the_same_records_once(tmp_path):
    kept = Kept()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    monitor = Monitoring(every=2, exporters=(kept,))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", run=tmp_path, monitor=monitor)
    for factor in (1.0, math.inf, 1.0):
        session.step(session.model(torch.ones(8, 4)).square().mean() * factor)
    written = [r for r in read_records(tmp_path / "records.jsonl") if getattr(r, "name", "") != "note"]
    assert [r for r in kept.records if isinstance(r, StepRecord)] == [r for r in written if isinstance(r, StepRecord)]
    assert list(map(record_line, kept.records)) == list(map(record_line, written))
