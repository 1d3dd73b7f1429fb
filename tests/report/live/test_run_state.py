from __future__ import annotations

from dataclasses import replace

from mixprec.records import EventRecord, FindingRecord, RunEndRecord
from mixprec.report.live._curve import Curve, draw
from mixprec.report.live._run_state import RunsState
from mixprec.report.live._worst_sites import worst_sites
from tests.report.guarded_run import BACK_TO, SEEN, STEPS, guarded, incident
from tests.report.monitored_run import _step as step
from tests.report.monitored_run import monitored, tensor
from tests.report.run_folder import comparison


def test_a_run_is_counted_and_its_newest_is_kept():
    state = RunsState()
    for record in monitored():
        state.take(record)
    run = state.newest
    assert run is not None
    assert (run.applied, run.skipped) == (400, 3)
    assert run.last is not None
    assert (run.last.step, run.last.loss_scale) == (399, 131072.0)
    assert {record.step for record in run.tensors.values()} == {350}, "the last sample"
    assert all(record.in_use for record in run.tensors.values()), "what-ifs are the report's"
    assert [finding.name for finding in run.findings] == ["loss spike", "flushed"]


def test_a_resumed_run_forgets_what_is_replaced():
    state = RunsState()
    for record in monitored():
        state.take(record)
    state.take(EventRecord(recipe="fp16", seed=0, step=250, name="resumed", site="", message="resumed"))
    run = state.newest
    assert run is not None
    assert (run.applied, run.skipped) == (250, 2)
    assert [finding.name for finding in run.findings] == ["loss spike"]
    assert run.severities["fault"] == 0
    assert max(at for at, _ in run.loss.values) == 249
    assert run.tensors == {}, "the last sample of each was after it"
    state.take(step(250, 2.0, applied=True))
    assert run.applied == 251


def test_memory_is_bounded_whatever_the_length():
    state = RunsState()
    for i in range(50_000):
        state.take(step(i, 2.0, applied=i % 2 == 0))
        if i % 10 == 0:
            state.take(
                FindingRecord(
                    recipe="fp16", seed=0, step=i, name="x", severity="note", site="", message="", evidence={}
                )
            )
    run = state.newest
    assert run is not None
    assert (run.applied, run.skipped, len(run.findings), run.severities["note"]) == (25_000, 25_000, 50, 5_000)
    assert 1024 <= len(run.loss.values) <= 2048
    assert run.loss.values[0][0] == 0
    assert run.loss.values[-1][0] > 49_900


def test_a_comparison_is_over_when_each_of_its_runs_has_ended():
    records = list(comparison(seeds=2, steps=8))
    state = RunsState()
    for record in records[:-1]:
        state.take(record)
    assert not state.is_over
    state.take(records[-1])
    assert state.is_over
    assert isinstance(records[-1], RunEndRecord)
    assert len(state.runs) == 8


def test_the_worst_are_a_third_by_each_figure():
    tensors = [
        tensor(0, f"blocks.{i}.mlp.fc1", "input", saturated=0.1 * (i == 5), flushed=0.01 * i, sqnr_db=30.0 - i)
        for i in range(8)
    ]
    found = worst_sites(tensors, 3)
    assert [(row.site, set(row.why)) for row in found[:2]] == [
        ("blocks.5.mlp.fc1 (input)", {"saturated"}),
        ("blocks.7.mlp.fc1 (input)", {"flushed", "SQNR"}),
    ]
    assert (found[0].cells["saturated"], found[1].cells["flushed"]) == ("10 %", "7.0 %")
    assert found[2].site == "blocks.6.mlp.fc1 (input)", "the room left goes to the next noisiest"
    assert len(worst_sites(tensors, 100)) == 8


def test_a_curve_is_drawn_between_its_ends():
    curve = Curve()
    for at in range(100):
        curve.add(at, float("nan") if at == 50 else float(at))
    drawn = draw(curve.values, width=20, height=4)
    assert drawn is not None
    lines, low, high = drawn
    assert (low, high) == (4.0, 99.0), "the first twentieth does not set the range"
    assert [len(line) for line in lines] == [20] * 4
    assert lines[0][0] == lines[3][-1] == "\u2800", "nothing at the top left, nothing at the bottom right"
    assert lines[3][0] != "\u2800"
    assert lines[0][-1] != "\u2800"
    assert draw([(0, float("inf"))], 10, 2) is None


def test_each_of_several_losses_is_kept_until_a_resumption():
    state = RunsState()
    for number, name, value in ((0, "d", 0.5), (1, "g", 3.0), (2, "d", 0.25)):
        state.take(replace(step(number, value, applied=True), losses={name: value}))
    run = state.newest
    assert run is not None
    assert run.losses == {"d": 0.25, "g": 3.0}
    state.take(EventRecord(recipe=run.recipe, seed=run.seed, step=1, name="resumed", site="", message="resumed"))
    assert run.losses == {}


def test_an_incident_is_kept_over_going_back_and_replaced_by_its_later_record():
    state = RunsState()
    for record in guarded():
        state.take(record)
    run = state.newest
    assert run is not None
    assert {number: (one.outcome, one.resolved) for number, one in run.incidents.items()} == {1: ("recovered", 120)}
    assert run.applied == STEPS
    assert [at for at, _ in run.loss.values] == list(range(STEPS)), "the axis goes on from where the run went back to"
    assert max(value for _, value in run.loss.values) < 9, "what was replaced is gone"


def test_steps_that_begin_again_without_a_word_replace_the_earlier_ones():
    state = RunsState()
    for number in (*range(SEEN), *range(BACK_TO, SEEN)):
        state.take(step(number, 2.0, applied=True))
    run = state.newest
    assert run is not None
    assert run.applied == SEEN
    assert [at for at, _ in run.loss.values] == list(range(SEEN))


def test_a_skipped_step_shares_its_number_with_the_next_and_replaces_nothing():
    state = RunsState()
    for number, applied in ((4, True), (5, False), (5, False), (5, True)):
        state.take(step(number, 2.0, applied=applied))
    run = state.newest
    assert run is not None
    assert (run.applied, run.skipped) == (2, 2)


def test_the_newest_incidents_are_kept():
    state = RunsState()
    for number in range(1, 200):
        state.take(incident(number))
    assert state.newest is not None
    assert sorted(state.newest.incidents) == list(range(150, 200))
