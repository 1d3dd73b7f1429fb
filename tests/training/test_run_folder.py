"""What a session leaves on disk."""

from __future__ import annotations

import copy
import fcntl
import json
import math

import pytest
import torch
from torch import nn

from mixprec.records import (
    ComparisonRecord,
    EventRecord,
    StepRecord,
    group_by_recipe,
    read_records,
    summarize,
    write_records,
)
from mixprec.specs import Recipe
from mixprec.training import prepare


def build(folder, recipe="fp16", **options):
    torch.manual_seed(0)
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
    (event,) = [r for r in records if isinstance(r, EventRecord) and r.name == "skipped"]
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
    assert names == ["note"]


def test_no_loss_is_told_where_the_session_never_saw_one(tmp_path):
    session = build(tmp_path, "bf16")
    loss_of(session).backward()
    session.step()
    assert [r.loss for r in read_records(tmp_path / "records.jsonl") if isinstance(r, StepRecord)] == [None]


def test_a_session_that_is_restored_or_refused_lets_others_write(tmp_path):
    session = build(tmp_path, "bf16")
    lock = (tmp_path / ".lock").open()
    assert is_locked(lock)
    session.restore()
    assert not is_locked(lock)
    with pytest.raises(ValueError, match="another recipe"):
        build(tmp_path, "fp16")
    assert not is_locked(lock)
    lock.close()


def is_locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def steps_of(folder):
    return [r.step for r in read_records(folder / "records.jsonl") if isinstance(r, StepRecord)]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != ".lock"}


def trained(folder, steps, recipe="bf16", **options):
    """A session that took some steps, and its state."""
    session = build(folder, recipe, **options)
    for _ in range(steps):
        session.step(loss_of(session))
    return session


def test_a_second_run_in_the_same_folder_is_refused_before_it_writes(tmp_path):
    trained(tmp_path, 3)
    before = content(tmp_path)
    again = build(tmp_path, "bf16")
    for step in (lambda: again.step(loss_of(again)), lambda: again.backward(loss_of(again)), again.step):
        with pytest.raises(ValueError, match=r"run folder .* holds 3 steps of an earlier run: continue it by"):
            step()
    assert again.applied == 0
    assert content(tmp_path) == before


def test_a_loop_that_was_stopped_goes_on_in_its_folder(tmp_path):
    whole = trained(tmp_path / "whole", 6)
    first = build(tmp_path / "part", "bf16")
    for step in range(5):
        if step == 3:
            saved = copy.deepcopy(first.state_dict()), copy.deepcopy(first.model.state_dict())
        first.step(loss_of(first))
    # Ctrl-C, and the same script again: it finds its checkpoint, from before the last steps.
    second = build(tmp_path / "part", "bf16")
    second.load_state_dict(saved[0])
    second.model.load_state_dict(saved[1])
    for _ in range(3):
        second.step(loss_of(second))
    assert steps_of(tmp_path / "part") == [0, 1, 2, 3, 4, 3, 4, 5]
    (event,) = [e for e in second.events if e.name == "resumed"]
    assert (event.step, event.message) == (3, "resumed from step 3 of 5 recorded ones")

    def read(folder):
        summary, (own,) = summarize(read_records(folder / "records.jsonl")), group(folder).values()
        return summary.rows[0].steps, [record.loss for record in own.steps[0].values()]

    assert read(tmp_path / "part") == read(tmp_path / "whole")
    assert whole.applied == second.applied == 6


def group(folder):
    return group_by_recipe(read_records(folder / "records.jsonl"))[1]


def test_a_run_may_be_stopped_again_at_the_same_place(tmp_path):
    first = trained(tmp_path, 2)
    saved = copy.deepcopy(first.state_dict())
    first.step(loss_of(first))
    for _ in range(2):
        again = build(tmp_path, "bf16")
        again.load_state_dict(saved)
        again.step(loss_of(again))
    records = read_records(tmp_path / "records.jsonl")
    assert [r.message for r in records if isinstance(r, EventRecord)] == ["resumed from step 2 of 3 recorded ones"] * 2
    assert list(group(tmp_path)["bf16"].steps[0]) == [0, 1, 2]
    last = build(tmp_path, "bf16")
    last.load_state_dict(saved)  # and stopped before its first step
    with pytest.raises(ValueError, match="holds 2 steps of an earlier run"):
        build(tmp_path, "bf16").step(loss_of(last))


def test_going_back_within_a_session_replaces_what_was_recorded(tmp_path):
    session = build(tmp_path, "bf16")
    session.step(loss_of(session))
    saved = copy.deepcopy(session.state_dict())
    for _ in range(3):
        session.step(loss_of(session))
    session.load_state_dict(saved)
    session.step(loss_of(session))
    assert steps_of(tmp_path) == [0, 1, 2, 3, 1]
    assert list(group(tmp_path)["bf16"].steps[0]) == [0, 1]


def test_notes_are_told_once_for_all_attempts(tmp_path):
    first = trained(tmp_path, 2, "auto")
    for _ in range(2):
        again = build(tmp_path, "auto")
        again.load_state_dict(first.state_dict())
        again.step(loss_of(again))
    events = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, EventRecord)]
    assert [event.name for event in events] == ["note", "resumed", "resumed"]


def test_from_the_start_on_everything_is_told_anew(tmp_path):
    first = build(tmp_path, "auto")
    start = copy.deepcopy(first.state_dict())
    first.step(loss_of(first))
    again = build(tmp_path, "auto")
    again.load_state_dict(start)
    again.step(loss_of(again))
    own = group(tmp_path)[again.recipe.name]
    assert sorted(event.name for event in own.events) == ["note", "resumed"]
    assert list(own.steps[0]) == [0]


def test_a_state_that_the_folders_run_never_reached_is_refused(tmp_path):
    other = trained(tmp_path / "other", 5)
    trained(tmp_path / "own", 2)
    session, before = build(tmp_path / "own", "bf16"), content(tmp_path / "own")
    with pytest.raises(
        ValueError, match=r"ends after 2 steps, the state that is loaded is of step 5: .*folder of its own"
    ):
        session.load_state_dict(other.state_dict())
    assert session.applied == 0
    assert content(tmp_path / "own") == before


def test_a_state_starts_a_new_folder_at_its_step(tmp_path):
    other = trained(tmp_path / "other", 2)
    session = build(tmp_path / "own", "bf16")
    session.load_state_dict(other.state_dict())
    session.step(loss_of(session))
    assert steps_of(tmp_path / "own") == [2]
    assert [e.name for e in session.events] == []


def test_a_run_that_took_no_step_leaves_the_folder_free(tmp_path):
    build(tmp_path, "auto")
    trained(tmp_path, 2, "auto")
    assert steps_of(tmp_path) == [0, 1]
    assert sum(isinstance(r, EventRecord) for r in read_records(tmp_path / "records.jsonl")) == 1


def test_other_versions_are_told(tmp_path):
    first = trained(tmp_path, 1)
    versions = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    (tmp_path / "versions.json").write_text(json.dumps(versions | {"torch": "1.0"}), encoding="utf-8")
    again = build(tmp_path, "bf16")
    again.load_state_dict(first.state_dict())
    (event,) = [e for e in again.events if e.name == "versions"]
    assert event.message == f"last bits may differ from those of the earlier part: torch 1.0 -> {torch.__version__}"
    assert json.loads((tmp_path / "versions.json").read_text(encoding="utf-8")) == versions


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [("fp16", {}, "holds a run of another recipe"), ("bf16", {"seed": 1}, "holds a run of seed 0, got seed 1")],
)
def test_another_run_is_refused_at_once(tmp_path, recipe, options, message):
    trained(tmp_path, 1)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=message):
        build(tmp_path, recipe, **options)
    assert content(tmp_path) == before


def test_a_file_is_no_run_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"run folder .*file is a file: give a folder"):
        build(tmp_path / "file")


def test_a_comparisons_folder_is_refused(tmp_path):
    header = ComparisonRecord(
        workload="w", recipes=("bf16",), baseline="bf16", seeds=(0,), steps=1, machine={}, versions={}, data={}
    )
    write_records(tmp_path / "records.jsonl", [header])
    with pytest.raises(ValueError, match="holds a comparison: give an empty folder"):
        build(tmp_path, "bf16")


def test_a_refused_folder_leaves_the_model_as_it_was(tmp_path):
    trained(tmp_path, 1)
    model = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="another recipe"):
        prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", run=tmp_path)
    assert type(model) is nn.Linear
