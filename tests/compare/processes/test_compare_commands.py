from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixprec.compare import compare_commands
from mixprec.compare.processes import _compare_commands
from mixprec.compare.processes._run_place import refuse_running, run_place
from mixprec.records import (
    BESIDE,
    ComparisonRecord,
    EventRecord,
    Record,
    RunEndRecord,
    StepRecord,
    read_records,
    summarize,
    summary_table,
)
from mixprec.report import write_report
from tests.compare.processes.scripts import script_box


def read(folder: Path) -> list[Record]:
    return read_records(folder / "records.jsonl")


def ends(folder: Path) -> dict[tuple[str, int], RunEndRecord]:
    return {(r.recipe, r.seed): r for r in read(folder) if isinstance(r, RunEndRecord)}


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


def test_gaps_are_paired_by_seed(tmp_path: Path):
    out = compare_commands(script_box(tmp_path, "base", "longer", seeds=(0, 1, 2)), tmp_path / "run x")
    summary = summarize(read(out))
    base, longer = summary.rows
    expected: dict[int, float] = {}
    for seed in (0, 1, 2):
        draw = random.Random(seed)
        last = [draw.random() for _ in range(10)][-1]
        expected[seed] = 3 / 10 + 0.01 * last + 0.001 * len("base")
    assert base.loss is not None
    assert base.loss.per_seed == pytest.approx(expected)
    assert longer.loss is not None
    assert longer.loss.gap.per_seed == pytest.approx(dict.fromkeys((0, 1, 2), 0.002))
    assert longer.metrics["accuracy"].gap.mean == pytest.approx(-0.0002)
    assert (summary.steps, summary.workload, summary.baseline) == (10, "train.py", "base")
    assert [run.steps for row in summary.rows for run in row.runs] == [10] * 6
    assert "step time: not told by the script that was run" in summary_table(summary).notes


def test_each_run_has_a_folder_with_its_output(tmp_path: Path):
    out = compare_commands(script_box(tmp_path, "größer & <b>"), tmp_path / "run")
    place = run_place(out, "größer & <b>", 0)
    assert (place / "stdout.txt").read_text(encoding="utf-8") == "hello größer & <b>\n"
    assert ends(out)["größer & <b>", 0].status == "done"


def test_a_script_that_tells_seconds_has_a_time_ratio(tmp_path: Path):
    out = compare_commands(script_box(tmp_path, "a", "b", extra=("{run}/log.jsonl:dt=step_seconds",)), tmp_path / "run")
    assert [(row.step_seconds, row.time_ratio) for row in summarize(read(out)).rows] == [(0.5, 1.0), (0.5, 1.0)]


def test_runs_beside_one_another_have_no_times(tmp_path: Path):
    box = script_box(tmp_path, "a", "b", "c", extra=("{run}/log.jsonl:dt=step_seconds",))
    out = compare_commands(box, tmp_path / "run", jobs=3)
    summary = summarize(read(out))
    assert [(row.step_seconds, row.time_ratio, row.beside) for row in summary.rows] == [(None, None, 1)] * 3
    events = [r for r in read(out) if isinstance(r, EventRecord)]
    assert {(e.name, e.message) for e in events} == {
        (BESIDE, "ran beside up to 2 other runs (--jobs): its times are not comparable")
    }
    assert "step time: runs that others ran beside (--jobs) are left out (a, b, c)" in summary_table(summary).notes
    header = read(out)[0]
    assert isinstance(header, ComparisonRecord)
    assert header.machine["jobs"] == 3


def test_what_ends_ill_is_told_and_the_others_go_on(tmp_path: Path):
    names = ("base", "crash", "nan", "missing", "garbled", "killed", "fine & <i>größer</i>")
    out = compare_commands(script_box(tmp_path, *names), tmp_path / "run", jobs=2)
    found = ends(out)
    status = {name: found[name, 0].status for name in names}
    assert status == dict.fromkeys(names, "failed") | {"base": "done", "nan": "diverged", names[-1]: "done"}
    assert found["crash", 0].reason == (
        "it ended with exit status 1: RuntimeError: <b>boom</b> größer (the end of runs/crash-seed0/stderr.txt)"
    )
    assert found["nan", 0].reason == "the loss was nan at step 6 (log.jsonl, line 6)"
    assert found["missing", 0].reason == "metric val is in no row of log.jsonl: it has no rows"
    assert found["garbled", 0].reason == "log.jsonl, line 11 cannot be read as JSON: 'epoch done'"
    assert found["killed", 0].reason.startswith("it was killed by SIGKILL")
    traces = [r.message for r in read(out) if isinstance(r, EventRecord) and r.name == "exception"]
    assert len(traces) == 1
    assert traces[0].splitlines()[0] == "Traceback (most recent call last):"
    page = write_report(out).read_text(encoding="utf-8")
    assert "<i>größer" not in page
    assert "&lt;i&gt;größer" in page
    assert "<b>boom" not in page


def test_what_ended_is_never_run_again(tmp_path: Path):
    box = script_box(tmp_path, "base", "killed", "nan")
    out = compare_commands(box, tmp_path / "run")
    inodes = {name: run_place(out, name, 0).stat().st_ino for name in box.names}
    steps = [r for r in read(out) if isinstance(r, StepRecord)]
    again = replace(box, names=("base", "killed", "nan", "new"))
    compare_commands(again, out, resume=True)
    assert {name: run_place(out, name, 0).stat().st_ino == inodes[name] for name in box.names} == {
        "base": True,
        "killed": False,  # anew, and what the first attempt left is kept beside
        "nan": True,
    }
    assert run_place(out, "killed", 0).with_name("killed-seed0.1").is_dir()
    assert {key: end.status for key, end in ends(out).items()} == {
        ("base", 0): "done",
        ("killed", 0): "failed",
        ("nan", 0): "diverged",
        ("new", 0): "done",
    }
    kept = [r for r in read(out) if isinstance(r, StepRecord) and r.recipe == "base"]
    assert kept == [r for r in steps if r.recipe == "base"]


def test_another_command_is_refused_in_the_same_folder(tmp_path: Path):
    box = script_box(tmp_path, "base")
    out = compare_commands(box, tmp_path / "run")
    with pytest.raises(ValueError, match="was run with data"):
        compare_commands(replace(box, command=box.command + " --more"), out, resume=True)
    with pytest.raises(ValueError, match="holds the records of another run"):
        compare_commands(box, out)


def test_ctrl_c_stops_the_processes_and_keeps_what_ended(tmp_path: Path):
    out = tmp_path / "run"
    slow = run_place(out, "slow", 0)

    def interrupt() -> None:
        wait_for(lambda: (slow / "started").exists() and (out / "records.jsonl").read_text().count('"end"') == 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        compare_commands(script_box(tmp_path, "base", "slow", "never"), out, jobs=1)
    thread.join()
    found = ends(out)
    assert {key: end.status for key, end in found.items()} == {("base", 0): "done", ("slow", 0): "interrupted"}
    # The step that it had logged is kept.
    assert [r.step for r in read(out) if isinstance(r, StepRecord) and r.recipe == "slow"] == [0]
    pid = int((slow / ".process").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert write_report(out).exists()


def test_a_process_of_a_killed_comparison_is_told(tmp_path: Path):
    box, out = script_box(tmp_path, "base", "slow"), tmp_path / "run"
    program = (
        "from pathlib import Path; from mixprec.compare import compare_commands;"
        "from tests.compare.processes.scripts import script_box;"
        f"compare_commands(script_box(Path({str(tmp_path)!r}), 'base', 'slow'), {str(out)!r})"
    )
    comparison = subprocess.Popen([sys.executable, "-c", program])
    slow = run_place(out, "slow", 0)
    wait_for((slow / "started").exists)
    comparison.kill()
    comparison.wait()
    pid = int((slow / ".process").read_text())
    try:
        with pytest.raises(ValueError, match=rf"recipe slow, seed 0: .*still goes on \(process {pid}\)"):
            compare_commands(box, out, resume=True)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert [run.status for row in summarize(read(out)).rows for run in row.runs] == ["done", "unfinished"]
    wait_for(lambda: _is_free(out))
    compare_commands(replace(box, names=("base", "slow", "x")), out, resume=True, on_record=_stop_at_slow(slow, pid))
    assert ends(out)["base", 0].status == "done"


def _is_free(out: Path) -> bool:
    try:
        refuse_running(out, [("slow", 0)])
    except ValueError:
        return False
    return True


def _stop_at_slow(slow: Path, pid: int) -> Callable[[Record], None]:
    """Ends the process of the second attempt, so that the test does not wait for it."""

    def end() -> None:
        wait_for(lambda: (slow / "started").exists() and int((slow / ".process").read_text()) != pid)
        os.kill(int((slow / ".process").read_text()), signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()
    return lambda record: None


def test_a_full_disk_leaves_a_folder_that_can_be_read_and_resumed(tmp_path: Path):
    box, out = script_box(tmp_path, "a", "b"), tmp_path / "run"
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(record: Record) -> None:
        if isinstance(record, StepRecord) and (record.recipe, record.step) == ("b", 3):
            size = (out / "records.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, kept[1]))

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(OSError, match=r"File too large.*records\.jsonl"):
            compare_commands(box, out, on_record=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not (out / "records.jsonl").read_bytes().endswith(b"\n")  # a line is cut off
    assert [run.status for row in summarize(read(out)).rows for run in row.runs] == ["done", "unfinished"]
    assert write_report(out).exists()
    compare_commands(box, out, resume=True)
    assert {end.status for end in ends(out).values()} == {"done"}


def test_versions_of_earlier_runs_are_told_beside_those_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    versions: dict[str, Any] = {"mixprec": "1", "torch": "2.9"}
    monkeypatch.setattr(_compare_commands, "package_versions", lambda: dict(versions))
    box = script_box(tmp_path, "a")
    out = compare_commands(box, tmp_path / "run")
    for now in ("2", "3", "3"):
        versions["mixprec"] = now
        compare_commands(box, out, resume=True)
    header = [r for r in read(out) if isinstance(r, ComparisonRecord)][-1]
    assert dict(header.versions) == {"mixprec": "3, earlier 2, earlier 1", "torch": "2.9"}
    assert write_report(out).exists()


def test_a_program_that_cannot_be_started_ends_its_run(tmp_path: Path):
    box = replace(script_box(tmp_path, "a", "b"), command="{recipe} {seed}")
    out = compare_commands(box, tmp_path / "run")
    assert {end.status for end in ends(out).values()} == {"failed"}
    assert "it could not be started" in ends(out)["a", 0].reason
