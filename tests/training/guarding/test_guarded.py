"""Guarded sessions: what is left out, what a run goes back from, and that the rest is as if it had never been."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mixprec import prepare
from mixprec.guard import Clip, Guard, Rewind, Skip, Snapshots
from mixprec.records import IncidentRecord, read_records
from mixprec.training import CheckpointNotWritten, RunStopped, Session

from .runs import SETTINGS, Numbers, begin, loss, net, run, weights


def poisoned(first: int, last: int) -> Callable[[int, Tensor], Tensor]:
    return lambda number, x: 30 * x if first <= number < last else x


def equal(one: Session, other: Session) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "mxfp8", "bf16-sr", "fp16"])
def test_a_healthy_run_is_as_without_a_guard(recipe: str):
    guarded_session, guarded = begin(recipe)
    run(guarded_session, guarded, Numbers(90))
    model = net()
    plain = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3), recipe)
    torch.manual_seed(1)
    for x in Numbers(90):
        plain.step(loss(plain, x))
    assert guarded_session.incidents == ()
    assert equal(guarded_session, plain)


@pytest.mark.parametrize("recipe", ["fp32", "mxfp8", "bf16-sr"])
def test_bad_batches_are_left_out_as_if_they_had_never_been(recipe: str):
    session, guarded = begin(recipe)
    applied = run(session, guarded, Numbers(90, poisoned(60, 64)))
    assert [i for i, one in enumerate(applied) if not one] == [60, 61, 62, 63]
    (incident,) = session.incidents
    assert (incident.trigger, incident.rung, incident.step, incident.batches) == (
        "loss spike",
        "skip",
        60,
        (60, 61, 62, 63),
    )
    assert (incident.outcome, incident.lost_steps) == ("recovered", 4)
    other, guard = begin(recipe)
    run(other, guard, Numbers(90), leave_out=range(60, 64))
    assert other.applied == session.applied == 86
    assert equal(session, other)


def test_a_run_goes_back_and_is_as_if_it_had_never_seen_those_batches():
    """Skipping is off: what follows must be the same as where the batches are left out from the start."""
    settings = Guard(skip=None, snapshots=Snapshots(every=10, quiet=5), rewind=Rewind(batches=8))
    session, guarded = begin("mxfp8", settings)
    loader = Numbers(120, poisoned(67, 68))
    run(session, guarded, loader)
    incident = session.incidents[0]
    assert (incident.rung, incident.step, incident.back_to) == ("rewind", 67, 60)
    assert incident.batches == (60, 61, 62, 63, 64, 65, 66, 67)
    assert loader.given.count(61) == 2
    assert (incident.outcome, incident.lost_steps, len(session.incidents)) == ("recovered", 7, 1)
    other, guard = begin("mxfp8", settings)
    run(other, guard, Numbers(120), leave_out=range(60, 68))
    assert equal(session, other)


@pytest.mark.parametrize("recipe", ["bf16", "bf16-sr"])
def test_a_damaged_weight_is_seen_at_once_and_nothing_is_lost(recipe: str):
    """The state is at fault, not a batch: the run goes back and sees all batches again."""
    session, guarded = begin(recipe)

    def flip(calls: int) -> None:
        if calls == 55:
            next(session.model.parameters()).data[0, 0] = 3e30

    run(session, guarded, Numbers(90), flip)
    (incident,) = session.incidents
    assert (incident.trigger, incident.site, incident.step) == ("weight jump", "0.weight", 55)
    assert (incident.rung, incident.back_to, incident.batches) == ("rewind", 50, ())
    other, guard = begin(recipe)
    run(other, guard, Numbers(90))
    assert equal(session, other)
    assert session.applied == 90


def test_an_infinite_moment_is_seen_before_it_reaches_a_weight():
    session, guarded = begin("bf16")

    def spoil(calls: int) -> None:
        if calls == 47:
            optimizer = session.optimizer
            state = next(iter(optimizer.state.values()))
            state["exp_avg_sq"].view(-1)[3] = torch.inf

    run(session, guarded, Numbers(70), spoil)
    (incident,) = session.incidents
    assert (incident.trigger, incident.site, incident.step) == ("moment not finite", "0.weight (exp_avg_sq)", 47)
    assert incident.outcome == "recovered"


def test_what_comes_back_ends_the_run_at_its_last_good_state(tmp_path: Path):
    """Weights that are damaged in each step: three times back, then the end; every incident is on the disk."""
    session, guarded = begin("bf16", run=tmp_path / "run")

    def damage(calls: int) -> None:
        if session.applied == 44:
            next(session.model.parameters()).data[0, 0] = torch.nan

    with pytest.raises(
        RunStopped, match=r"step 44: weight not finite at 0\.weight.*the state is that of step 30"
    ) as caught:
        run(session, guarded, Numbers(90), damage)
    assert [incident.rung for incident in session.incidents] == ["rewind", "rewind", "rewind", "stop"]
    assert [incident.outcome for incident in session.incidents] == ["again", "again", "again", "stopped"]
    assert caught.value.incident == session.incidents[-1]
    assert all(bool(p.isfinite().all()) for p in session.model.parameters())
    records = [r for r in read_records(tmp_path / "run" / "records.jsonl") if isinstance(r, IncidentRecord)]
    assert str(list({r.number: r for r in records}.values())) == str(list(session.incidents))  # with NaN


def test_a_rehearsal_tells_and_does_nothing():
    settings = Guard(dry_run=True, snapshots=SETTINGS.snapshots)
    session, guarded = begin("bf16", settings)
    applied = run(session, guarded, Numbers(90, poisoned(60, 62)))
    assert all(applied)
    told = session.incidents[0]
    assert (told.outcome, told.rung, told.action) == (
        "rehearsed",
        "skip",
        "would be: the step is left out, with batch 60",
    )
    assert not told.batches


def test_a_loader_that_cannot_go_back_is_told_of_at_the_start():
    session, guarded = begin("bf16", Guard(skip=None, snapshots=SETTINGS.snapshots))
    batches = list(Numbers(90, poisoned(60, 61)))
    seen = 0
    for x in guarded.batches(batches):
        seen += 1
        session.step(loss(session, x))
    assert seen == 90
    (incident,) = session.incidents
    assert (incident.rung, incident.back_to, incident.batches) == ("rewind", 50, ())
    assert session.applied == 50 + 29
    assert any("the loader (list) has no state_dict()" in event.message for event in session.events)


def test_spikes_are_clipped_by_their_z_score():
    settings = Guard(clip=Clip(z=2.0, warm_up=10), skip=None, rewind=None, escalate=None, stops=False)
    session, guarded = begin("fp32", settings)
    run(session, guarded, Numbers(60, poisoned(50, 51)))
    clipped = [event for event in session.events if event.name == "clipped"]
    assert 50 in [event.step for event in clipped]


def test_a_static_scale_that_overflows_is_lowered():
    session, guarded = begin("fp16", loss_scale=2.0**24)
    run(session, guarded, Numbers(40))
    assert session.loss_scale < 2.0**24
    assert {incident.trigger for incident in session.incidents} == {"gradients overflow"}
    assert session.applied > 30


def test_skips_have_a_limit():
    session, guarded = begin("bf16", Guard(skip=Skip(limit=3), snapshots=SETTINGS.snapshots))
    run(session, guarded, Numbers(100, poisoned(60, 66)))
    assert [incident.rung for incident in session.incidents][:2] == ["skip", "rewind"]
    assert session.incidents[0].outcome == "again"
    assert session.incidents[-1].outcome == "recovered"


def test_a_session_is_guarded_once():
    session, _ = begin()
    with pytest.raises(ValueError, match="guarded already"):
        session.guard()
    with pytest.raises(TypeError, match=r"expected a mixprec\.guard\.Guard"):
        begin(settings="all")  # type: ignore[arg-type]


def test_a_state_that_is_not_finite_takes_the_place_of_no_checkpoint(tmp_path: Path):
    session, guarded = begin(run=tmp_path)
    run(session, guarded, Numbers(3))
    session.save(extra={"data": Numbers(3)}, keep=1)
    next(iter(session.optimizer.state.values()))["exp_avg"].view(-1)[0] = torch.inf
    with pytest.raises(CheckpointNotWritten, match=r"0\.weight \(exp_avg\) in this state is not finite"):
        session.save(extra={"data": Numbers(3)}, keep=1)
    assert session.resume(extra={"data": Numbers(3)}).step == 3
    assert bool(next(iter(session.optimizer.state.values()))["exp_avg"].isfinite().all())


def test_a_learning_rate_that_jumped_is_waited_for_once_it_has_done_damage():
    """Ten times the rate for 20 calls: told at once; after the way back the steps wait until it is over."""
    session, guarded = begin("bf16", rate=3e-3)

    def jump(calls: int) -> None:
        rate = 3e-3 * (300.0 if 60 <= calls < 80 else 1.0)
        for group in session.optimizer.param_groups:
            group["lr"] = rate

    run(session, guarded, Numbers(140), jump)
    told, back, waits = session.incidents
    assert (told.trigger, told.rung, told.step) == ("learning-rate jump", "tell", 60)
    assert (back.rung, back.batches) == ("rewind", ())
    assert (waits.rung, waits.trigger) == ("skip", "learning-rate jump")
    assert {one.outcome for one in session.incidents} == {"recovered", "again"}
    assert session.applied > 115


def test_all_batches_of_an_accumulated_step_are_left_out_together():
    """Three batches a step; the middle one of step 20 is bad: the three go, and are told."""
    session, guarded = begin("bf16-sr")

    def by_threes(session: Session, batches: Iterable[Tensor]) -> None:
        for parts, x in enumerate(batches, 1):
            session.backward(loss(session, x) / 3)
            if parts % 3 == 0:
                session.step()

    by_threes(session, guarded.batches(Numbers(180, lambda number, x: x * torch.nan if number == 61 else x)))
    (incident,) = session.incidents
    assert (incident.step, incident.batches) == (20, (60, 61, 62))
    other, guard = begin("bf16-sr")
    by_threes(other, guard.batches(Numbers(180), leave_out=(60, 61, 62)))
    assert equal(session, other)


def test_a_jump_that_lies_in_the_schedule_leaves_out_no_sound_batch():
    session, guarded = begin("bf16", rate=3e-3)

    def jump(_calls: int) -> None:
        for group in session.optimizer.param_groups:
            group["lr"] = 3e-3 * (300.0 if 60 <= session.applied < 90 else 1.0)

    with pytest.raises(RunStopped):
        run(session, guarded, Numbers(400), jump)
    assert not any(incident.batches for incident in session.incidents if incident.rung == "skip")
    assert [incident.rung for incident in session.incidents].count("rewind") == 3


def test_what_is_open_is_over_once_the_run_is_done():
    session, guarded = begin()
    run(session, guarded, Numbers(62, poisoned(60, 61)))
    assert [incident.outcome for incident in session.incidents] == ["open"]
    guarded.finish()
    assert [incident.outcome for incident in session.incidents] == ["recovered"]
