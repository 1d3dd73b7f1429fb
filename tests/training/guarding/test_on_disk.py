"""Snapshots on disk: older states, which a run goes back to when newer ones do not help, in a later process too."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from mixprec.guard import Guard, Snapshots
from mixprec.training import Guarded, Session
from mixprec.training.checkpoint import CheckpointDamaged

from .runs import Numbers, begin, loss, run, weights

SETTINGS = Guard(snapshots=Snapshots(every=10, quiet=5, in_memory=2, disk_every=20, on_disk=3))


def on_disk(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "snapshots").glob("step-*"))


class Faults:
    """Damages a weight whenever so many steps are applied, a number of times."""

    def __init__(self, session: Session, at: int, times: int) -> None:
        self._session, self._at, self.left = session, at, times

    def __call__(self, calls: int = 0) -> None:
        if self._session.applied == self._at and self.left:
            self.left -= 1
            next(self._session.model.parameters()).data[0, 0] = torch.inf


def train_until(step: int, session: Session, guarded: Guarded) -> None:
    for x in guarded.batches(Numbers(130)):
        session.step(loss(session, x))
        if session.applied == step:
            break


def back(session: Session) -> list[int | None]:
    return [incident.back_to for incident in session.incidents]


def test_a_bounded_number_is_held_and_none_once_the_run_is_done(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    seen: dict[int, list[str]] = {}
    for x in guarded.batches(Numbers(130)):
        session.step(loss(session, x))
        seen[session.applied] = on_disk(tmp_path)
    assert seen[19] == []
    assert seen[20] == ["step-00000020"]
    assert seen[60] == ["step-00000020", "step-00000040", "step-00000060"]
    # One that made room waits for the next one to do so: a process may go on from a checkpoint before that.
    assert seen[80] == ["step-00000020", *seen[60][1:], "step-00000080"]
    assert seen[120] == [f"step-{step:08d}" for step in (60, 80, 100, 120)]
    assert on_disk(tmp_path) == []
    (told,) = [event.message for event in session.events if "snapshots" in event.message]
    assert told.endswith(f"in host memory, and 3 older ones in {tmp_path / 'snapshots'}")


@pytest.mark.parametrize("recipe", ["bf16", "mxfp8", "bf16-sr"])
def test_what_comes_again_is_met_further_back_and_the_rest_is_as_without_it(recipe: str, tmp_path: Path):
    session, guarded = begin(recipe, SETTINGS, run=tmp_path)
    run(session, guarded, Numbers(120), Faults(session, 64, 3))
    assert back(session) == [50, 40, 20]
    assert session.applied == 120
    other, guard = begin(recipe, SETTINGS)
    run(other, guard, Numbers(120))
    assert all(torch.equal(a, b) for a, b in zip(weights(session), weights(other), strict=True))


def test_a_state_from_disk_is_in_memory_from_there_on(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    faults, later = Faults(session, 64, 2), Faults(session, 43, 1)
    for x in guarded.batches(Numbers(90)):
        faults()
        if not faults.left:
            later()
        session.step(loss(session, x))
        if session.applied == 40 and not faults.left:
            assert on_disk(tmp_path) == ["step-00000020", "step-00000040"], "those after it are not the run's any more"
    assert back(session) == [50, 40, 20]


def test_they_outlive_a_process_that_ends_early_and_none_a_run_that_is_done(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    train_until(45, session, guarded)
    assert on_disk(tmp_path) == ["step-00000020", "step-00000040"]
    guarded.finish()
    assert on_disk(tmp_path) == []


def test_a_run_without_a_folder_has_none(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS)
    run(session, guarded, Numbers(120), Faults(session, 64, 3))
    assert back(session)[0] == 50
    assert 20 not in back(session)
    assert not list(tmp_path.iterdir())


def test_a_later_process_goes_back_to_what_an_earlier_one_wrote(tmp_path: Path):
    """Killed after a checkpoint: what it knows of stays, what was written later is written again."""
    whole, guard = begin(settings=SETTINGS, run=tmp_path / "whole")
    run(whole, guard, Numbers(120), Faults(whole, 64, 3))

    first, guard = begin(settings=SETTINGS, run=tmp_path / "run")
    loader = Numbers(120)
    for x in guard.batches(loader):
        first.step(loss(first, x))
        if first.applied == 55:
            first.save(extra={"data": loader})
        if first.applied == 62:
            break
    first.restore()
    assert on_disk(tmp_path / "run")[-1] == "step-00000060"

    second, guard = begin(settings=SETTINGS, run=tmp_path / "run")
    loader = Numbers(120)
    second.resume(extra={"data": loader})
    assert on_disk(tmp_path / "run") == ["step-00000020", "step-00000040"]
    run(second, guard, loader, Faults(second, 64, 3))
    assert second.applied == 120
    assert back(second) == [55, 40, 20], "memory ended with the process: the place where it began stands for it"
    assert all(torch.equal(a, b) for a, b in zip(weights(second), weights(whole), strict=True))


def test_what_another_run_left_in_the_folder_is_not_taken_for_this_ones(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    train_until(45, session, guarded)
    session.restore()
    assert len(on_disk(tmp_path)) == 2
    again, guarded = begin(settings=SETTINGS, run=tmp_path)
    again.resume()
    for x in guarded.batches(Numbers(5)):
        again.step(loss(again, x))
        assert on_disk(tmp_path) == []


def test_snapshots_that_are_gone_are_told_of(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    loader = Numbers(50)
    for x in guarded.batches(loader):
        session.step(loss(session, x))
        if session.applied == 45:
            session.save(extra={"data": loader})
            break
    session.restore()
    (tmp_path / "snapshots" / "step-00000020").rename(tmp_path / "elsewhere")
    again, _ = begin(settings=SETTINGS, run=tmp_path)
    again.resume(extra={"data": Numbers(50)})
    (told,) = [event.message for event in again.events if "not on disk any more" in event.message]
    assert "snapshots of steps 20 are" in told


def test_a_damaged_one_is_not_believed(tmp_path: Path):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    faults = Faults(session, 64, 3)

    def before(calls: int) -> None:
        faults()
        if calls == 50:
            file = tmp_path / "snapshots" / "step-00000040" / "model.safetensors"
            file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])

    with pytest.raises(CheckpointDamaged, match=r"step-00000040 is damaged: model\.safetensors"):
        run(session, guarded, Numbers(120), before)


def test_a_full_disk_is_told_once_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session, guarded = begin(settings=SETTINGS, run=tmp_path)
    own = os.rename

    def full(old: str | Path, new: str | Path) -> None:
        if "snapshots" in str(new):
            raise OSError(errno.ENOSPC, "No space left on device")
        own(old, new)

    monkeypatch.setattr(os, "rename", full)
    run(session, guarded, Numbers(90), Faults(session, 64, 1))
    assert back(session) == [50]
    assert session.applied == 90
    (told,) = [event.message for event in session.events if "is not on disk" in event.message]
    assert told.startswith(
        "guard: the snapshot of step 20 is not on disk, and training goes on with the 2 that are held"
    )
    assert "No space left on device" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_disk": 1}, "Snapshots: on_disk is 1: expected 0 or from 2 on"),
        ({"on_disk": -1}, "Snapshots: on_disk is -1: expected a whole number from 0 on"),
        ({"disk_every": 0}, "Snapshots: disk_every is 0: expected a whole number from 1 on"),
        ({"disk_every": 4, "on_disk": 2}, "with 2 on disk, 4 steps apart, it is gone after 4: expected disk_every of"),
    ],
)
def test_settings_that_hold_nothing_good_are_refused(options: dict[str, int], told: str):
    with pytest.raises(ValueError, match=told):
        Snapshots(**options)
