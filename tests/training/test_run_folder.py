"""What a session leaves on disk."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from mixprec.records import EventRecord, StepRecord, read_records
from mixprec.specs import Recipe
from mixprec.training import prepare


def build(folder, recipe="fp16", **options):
    model = nn.Linear(2, 1)
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe, run=folder, **options)


def loss_of(session, factor=1.0):
    return session.model(torch.ones(4, 2)).square().mean() * factor


def test_steps_and_events_are_appended(tmp_path):
    session = build(tmp_path / "a" / "b", seed=3)
    loss = loss_of(session)
    session.step(loss)
    skipped = session.step(loss_of(session, math.nan))
    session.backward(loss_of(session, 0.5))
    session.step(loss_of(session, 0.5))
    records = read_records(tmp_path / "a" / "b" / "records.jsonl")
    steps = [r for r in records if isinstance(r, StepRecord)]
    assert [(r.step, r.applied, r.loss_scale) for r in steps] == [(0, True, 65536), (1, False, 65536), (1, True, 32768)]
    assert steps[0].loss == pytest.approx(loss.item())
    assert math.isnan(steps[1].loss)
    assert {(r.recipe, r.seed) for r in records} == {("fp16", 3)}
    assert all(0 < r.seconds < 60 for r in steps)
    (event,) = [r for r in records if isinstance(r, EventRecord)]
    assert (event.step, event.name, event.site, event.message) == (1, "skipped", "bias", skipped.reason)


def test_recipe_and_versions_are_written(tmp_path):
    session = build(tmp_path, "auto", loss_scale=64)
    assert Recipe.from_toml((tmp_path / "recipe.toml").read_text(encoding="utf-8")) == session.recipe
    versions = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert versions["torch"] == torch.__version__
    assert versions["threads"] == torch.get_num_threads()


def test_notes_are_written_too(tmp_path):
    session = build(tmp_path, "bf16-true")
    names = [r.name for r in read_records(tmp_path / "records.jsonl")]
    assert names == [e.name for e in session.events]
    assert "no 16-bit weights" in names


def test_a_loss_that_the_session_never_saw_is_nan(tmp_path):
    session = build(tmp_path, "bf16")
    loss_of(session).backward()
    session.step()
    assert [math.isnan(r.loss) for r in read_records(tmp_path / "records.jsonl") if isinstance(r, StepRecord)] == [True]


def test_a_folder_is_continued_by_its_own_recipe_only(tmp_path):
    for _ in range(2):
        session = build(tmp_path, "bf16")
        session.step(loss_of(session))
    assert len(read_records(tmp_path / "records.jsonl")) == 2
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        build(tmp_path, "fp16")
