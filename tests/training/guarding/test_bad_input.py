"""What a guard is given that it cannot use, and what it goes on without."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mixprec.guard import Clip, Escalate, Guard, Rewind, Scale, Skip, Snapshots
from mixprec.training import CheckpointNotWritten, Shadow
from mixprec.training.guarding import _held_state

from .runs import SETTINGS, Numbers, begin, loss, run

OFF: dict[str, Any] = dict.fromkeys(("clip", "scale", "skip", "rewind", "escalate"))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda: Guard(rewind=None),
            r"escalate goes back to a snapshot, and rewind is off: set rewind, or escalate=None",
        ),
        (lambda: Guard(**OFF, dry_run=True), "every rung is off: set one, or no dry_run"),
        (
            lambda: Guard(rewind=Rewind(window=10)),
            "a rewind counts for 10 steps and snapshots are 20 apart.*rewind.window of at least snapshots.every",
        ),
        (lambda: Guard(drift=0.0), "drift is 0.0: expected a number from 1e-06 on"),
        (lambda: Guard(gap=-1.0), "gap is -1.0: expected a number from 0 on"),
        (lambda: Guard(gap=math.inf), "gap is inf: expected a finite number"),
        (lambda: Skip(limit=0), "Skip: limit is 0: expected a whole number from 1 on"),
        (lambda: Rewind(batches=-1), "Rewind: batches is -1: expected a whole number from 0 on"),
        (lambda: Snapshots(in_memory=1), "Snapshots: in_memory is 1: expected a whole number from 2 on"),
        (lambda: Scale(factor=0.3), "Scale: factor is 0.3: expected a power of two below 1"),
        (lambda: Escalate(limit=True), "Escalate: limit is True: expected a whole number from 1 on"),
        (lambda: Clip(decay=1.0), "Clip: decay is 1.0: expected a number between 0 and 1"),
    ],
)
def test_settings_that_contradict_one_another_or_are_out_of_range(make: Callable[[], object], what: str):
    with pytest.raises(ValueError, match=what):
        make()


def test_what_is_no_setting_is_refused_by_its_name():
    with pytest.raises(TypeError, match="Guard: skip is 3, expected a Skip or None"):
        Guard(skip=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Guard: snapshots is None, expected a Snapshots"):
        Guard(snapshots=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("measured", "baseline"), [(1.0, math.nan), (math.nan, math.nan), (1.0, math.inf), (1.0, 9.0)])
def test_a_baseline_that_is_no_better_itself_is_no_fault_of_the_precision(measured: float, baseline: float):
    session, guarded = begin(settings=Guard(gap=1e-6, snapshots=SETTINGS.snapshots))
    run(session, guarded, Numbers(2))
    guarded.hear_gap(measured - baseline, baseline)
    run(session, guarded, Numbers(2))
    assert session.incidents == ()
    told = str(Shadow(step=2, loss=measured, baseline=baseline, ratio=None, seconds=0.1, bytes=8))
    assert ("fp32 is not finite either" in told) == (not math.isfinite(baseline))


def test_without_memory_for_a_snapshot_those_that_are_held_stand(monkeypatch: pytest.MonkeyPatch):
    session, guarded = begin()
    own, count = _held_state.HeldState.take, [0]

    def take(self: Any, tree: Any) -> None:
        count[0] += 1
        if count[0] >= 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory")
        own(self, tree)

    monkeypatch.setattr(_held_state.HeldState, "take", take)

    def damage(calls: int) -> None:
        if calls == 45:
            next(session.model.parameters()).data[0, 0] = torch.inf

    run(session, guarded, Numbers(60), damage)
    assert [(one.rung, one.back_to, one.outcome) for one in session.incidents] == [("rewind", 10, "recovered")]
    assert session.applied == 60
    (told,) = [event.message for event in session.events if "no memory" in event.message]
    assert told.startswith("guard: there is no memory for a snapshot at step 20: training goes on with the 2 that")


def test_a_full_disk_holds_up_neither_training_nor_the_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session, guarded = begin(run=tmp_path)
    loader, own, told = Numbers(60), os.fsync, list[str]()

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for calls, x in enumerate(guarded.batches(loader)):
        if calls == 45:
            next(iter(session.optimizer.state.values()))["exp_avg"].view(-1)[0] = torch.inf
        session.step(loss(session, x))
        if session.applied == 20:
            monkeypatch.setattr(os, "fsync", full)
        if calls % 10 == 9:
            try:
                session.save(extra={"data": loader})
            except CheckpointNotWritten as error:
                told.append(str(error))
        if session.applied == 50:
            monkeypatch.setattr(os, "fsync", own)
    assert len(told) == 4
    assert all("No space left" in text for text in told)
    assert [(one.rung, one.outcome) for one in session.incidents] == [("rewind", "recovered")]
    assert session.applied == 60
