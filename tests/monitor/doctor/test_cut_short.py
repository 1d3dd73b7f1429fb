"""Runs that nobody ended: what the doctor says of a killed process, and what it advises."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from mixprec.monitor.doctor import Diagnosed, diagnose
from mixprec.records import ComparisonRecord, FindingRecord, Record, RunEndRecord, RunLock
from mixprec.specs import recipe
from tests.monitor.doctor.records import calm, folder, skipped, step

# One process that has torch; each run is a child of it, which ends in its own way.
SCRIPT = """
import os, signal, sys
import torch
import mixprec

def session(folder, save=False, **options):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = mixprec.prepare(model, optimizer, "bf16", run=folder, **options)
    for _ in range(7):
        session.step(model(torch.ones(2, 4)).square().mean())
    if save:
        session.save()
        session.step(model(torch.ones(2, 4)).square().mean())
    return session

def loop(folder):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = mixprec.monitor(model, optimizer, run=folder)
    for _ in range(7):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    return monitor

ENDS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "gone": lambda: os._exit(0),
    "ended": lambda: sys.exit(0),
    "left": lambda: sys.exit(1),
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
}
RUNS = [
    *((kind, end, {}) for kind in ("session", "loop") for end in ("killed", "gone", "ended", "left")),
    ("session", "killed", {"save": True}),
    ("session", "terminated", {"monitor": mixprec.monitor.Monitoring()}),
]
torch.set_num_threads(1)
session(os.path.join(sys.argv[1], "first session")).restore()  # what is imported at first use is there then
loop(os.path.join(sys.argv[1], "first loop")).remove()
for kind, end, options in RUNS:
    name = f"{kind} {end}{' saved' if 'save' in options else ''}"
    if os.fork() == 0:
        held = {"session": session, "loop": loop}[kind](os.path.join(sys.argv[1], name), **options)
        ENDS[end]()
    os.wait()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def told(path: Path) -> dict[str, Diagnosed]:
    return {found.finding.name: found for found in diagnose(path).findings}


def test_a_killed_session_is_told_with_its_last_step(runs: Path) -> None:
    finding = told(runs / "session killed")["run stopped short"].finding
    assert (finding.severity, finding.step) == ("warning", 6)
    assert "the records stop after step 6 (7 steps)" in finding.message
    assert str(finding.evidence["process"]).endswith(f"on {socket.gethostname()}")
    assert finding.evidence.keys() == {"process", "since", "last record", "last loss"}
    assert "the run has no checkpoint, so it begins anew" in finding.remedy
    assert "resume()" not in finding.remedy


def test_a_killed_session_with_a_checkpoint_goes_on_from_it(runs: Path) -> None:
    finding = told(runs / "session killed saved")["run stopped short"].finding
    assert finding.step == 7
    assert "session.resume() goes on from the checkpoint of step 7" in finding.remedy


def test_a_killed_loop_that_was_only_watched(runs: Path) -> None:
    finding = told(runs / "loop killed")["run stopped short"].finding
    assert "the records stop after step 6" in finding.message
    assert "mixprec.monitor saves none" in finding.remedy


@pytest.mark.parametrize("kind", ["session", "loop"])
def test_whatever_else_a_process_ends_by_is_none(runs: Path, kind: str) -> None:
    assert "run stopped short" in told(runs / f"{kind} gone")
    assert "run stopped short" not in told(runs / f"{kind} ended")
    assert "run stopped short" not in told(runs / f"{kind} left")


def test_a_terminated_session_is_told_once(runs: Path) -> None:
    found = told(runs / "session terminated")
    assert "run stopped short" not in found
    assert "the run has no checkpoint" in found["terminated"].finding.remedy


def held_by(path: Path, *, is_open: object) -> Path:
    """A folder whose last writer was another process."""
    holder = {"pid": 1, "host": socket.gethostname(), "since": "2026-01-01 00:00:00", "handle": 3}
    (path / ".lock").write_text(json.dumps(holder if is_open is None else {**holder, "open": is_open}))
    return path


def test_a_run_that_is_being_written_is_none(tmp_path: Path) -> None:
    path = folder(tmp_path, calm(5), recipe("bf16"))
    lock = RunLock(path)
    assert told(path) == {}
    lock.release()
    assert told(path) == {}
    assert "run stopped short" in told(held_by(path, is_open=True))
    assert told(held_by(path, is_open=False)) == {}
    assert told(held_by(path, is_open=None)) == {}  # nobody wrote down whether it was closed


def test_a_run_that_stopped_before_its_first_step(tmp_path: Path) -> None:
    path = held_by(folder(tmp_path, [skipped(0)], recipe("bf16")), is_open=True)
    assert "after step 0 (1 step)" in told(path)["run stopped short"].finding.message


def comparison(path: Path, ends: Iterable[Record]) -> Path:
    header = ComparisonRecord(
        workload="w", recipes=("a", "b"), baseline="a", seeds=(0,), steps=9, machine={}, versions={}, data={}
    )
    return folder(path, [header, *(step(n, recipe=name) for name in ("a", "b") for n in range(4)), *ends])


def test_a_comparison_names_the_run_that_has_no_end(tmp_path: Path) -> None:
    path = comparison(tmp_path, [RunEndRecord(recipe="a", seed=0, status="done")])
    assert told(path) == {}
    for is_open in (True, False):
        (found,) = diagnose(held_by(path, is_open=is_open)).findings
        assert (found.recipe, found.finding.name) == ("b", "run stopped short")
        assert "--resume RUN" in found.finding.remedy
    lock = RunLock(path)
    assert told(path) == {}
    lock.release()


def test_an_interrupted_training_is_told_as_such_alone(tmp_path: Path) -> None:
    path = comparison(tmp_path, [RunEndRecord(recipe=r, seed=0, status="interrupted", reason="x") for r in "ab"])
    assert told(held_by(path, is_open=True)).keys() == {"run interrupted"}


def test_a_loop_that_steps_on_nan_has_skipped_nothing(tmp_path: Path) -> None:
    nan = float("nan")
    said = FindingRecord(
        recipe="mine", seed=0, step=9, name="steps skipped in a row", severity="fault", site="", evidence={},
        message="8 steps in a row were skipped", remedy="session.locate() names the first operation",
    )  # fmt: skip
    bad = [step(n, nan, grad_norm=nan) for n in range(2, 10)]
    assert "steps skipped in a row" not in told(folder(tmp_path / "stepped", [*calm(2), *bad, said]))
    found = told(folder(tmp_path / "skipped", [*calm(2), *(skipped(2) for _ in bad), said]))
    finding = found["steps skipped in a row"].finding
    assert finding.remedy == "`mixprec doctor RUN --workload FILE` replays the step and names the first operation"
    path = folder(tmp_path / "session", [*calm(2), *(skipped(2) for _ in bad), said], recipe("bf16"))
    assert told(path)["steps skipped in a row"].finding.remedy == "session.locate() names the first operation"
