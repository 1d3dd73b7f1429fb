from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mixprec.compare import Comparison, compare, load_workload, plan_pairs, recorded
from mixprec.compare.processes._run_place import refuse_running, run_place
from mixprec.records import (
    BESIDE,
    CoverageRecord,
    EvaluationRecord,
    EventRecord,
    MemoryRecord,
    RunEndRecord,
    StepRecord,
    read_records,
)
from mixprec.report import write_report
from mixprec.specs import recipe
from tests.compare import fits

WORKLOAD = """
import sys, time
sys.path.insert(0, {root!r})
from tests.compare.fits import fit

def workload(seed, device, steps=6):
    def batches(step, made=fit(seed, device, steps)):
        if step == 4 and {pause}:
            time.sleep(60)
        return made.batches(step)
    print("made", seed)
    return fit(seed, device, steps, batches=batches)
"""


def written(folder: Path, *names: str, seeds: tuple[int, ...] = (0,), pause: str = "False") -> Comparison:
    file = folder / "my job.py"
    file.write_text(WORKLOAD.format(root=str(Path(__file__).parents[3]), pause=pause))
    return Comparison(source=load_workload(str(file)), recipes=tuple(recipe(n) for n in names), seeds=seeds)


@pytest.fixture
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
def test_numbers_are_those_of_one_process(tmp_path: Path):
    comparison = written(tmp_path, "fp32", "mxfp8")
    one = read_records(compare(comparison, tmp_path / "one") / "records.jsonl")
    several = read_records(compare(comparison, tmp_path / "several", jobs=2) / "records.jsonl")
    for kind, value in (
        (StepRecord, lambda r: (r.recipe, r.seed, r.step, r.loss, r.grad_norm, r.tokens)),
        (EvaluationRecord, lambda r: (r.recipe, r.seed, r.step, r.forward, tuple(r.metrics.items()))),
        (CoverageRecord, lambda r: (r.recipe, r.seed, str(r.rows))),
        (RunEndRecord, lambda r: (r.recipe, r.seed, r.status)),
    ):
        found, expected = ({value(r) for r in records if isinstance(r, kind)} for records in (several, one))
        assert found == expected
        assert found
    assert len([r for r in several if isinstance(r, MemoryRecord)]) == 2
    assert {r.recipe for r in several if isinstance(r, EventRecord) and r.name == BESIDE} == {"fp32", "mxfp8"}
    place = run_place(tmp_path / "several", "fp32", 0)
    assert sorted(item.name for item in place.iterdir()) == [".process", "stdout.txt"]
    assert (place / "stdout.txt").read_text() == "made 0\n"


@pytest.mark.slow
def test_a_killed_worker_is_told_and_run_again(tmp_path: Path):
    out = tmp_path / "run"
    flag = tmp_path / "pause"
    flag.touch()
    comparison = written(tmp_path, "fp32", "bf16", pause=f"__import__('os').path.exists({str(flag)!r})")
    place = run_place(out, "bf16", 0)

    def kill() -> None:
        wait_for(lambda: (place / "records.jsonl").exists() and '"step": 3' in (place / "records.jsonl").read_text())
        flag.unlink()
        os.kill(int((place / ".process").read_text()), signal.SIGKILL)
        os.kill(int((run_place(out, "fp32", 0) / ".process").read_text()), signal.SIGTERM)

    thread = threading.Thread(target=kill)
    thread.start()
    compare(comparison, out, jobs=2)
    thread.join()
    ends = {r.recipe: r for r in read_records(out / "records.jsonl") if isinstance(r, RunEndRecord)}
    assert ends["bf16"].reason == (
        "it was killed by SIGKILL, as the system does where memory runs out; --resume runs it again"
    )
    assert ends["fp32"].reason == "it was killed by SIGTERM; --resume runs it again"
    compare(comparison, out, jobs=2, resume=True)
    records = read_records(out / "records.jsonl")
    assert {(r.recipe, r.status) for r in records if isinstance(r, RunEndRecord)} == {
        ("fp32", "done"),
        ("bf16", "done"),
    }
    assert [r.step for r in records if isinstance(r, StepRecord) and r.recipe == "bf16"] == list(range(6))


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
def test_a_plan_of_pairs_adds_the_pairs_that_one_process_adds(tmp_path: Path):
    made = replace(written(tmp_path, "fp32", "mxfp8", seeds=tuple(range(4))), plan=plan_pairs(4))
    one, several = compare(made, tmp_path / "one"), compare(made, tmp_path / "several", jobs=2)
    losses = [
        {(r.recipe, r.seed, r.step): r.loss for r in read_records(place / "records.jsonl") if isinstance(r, StepRecord)}
        for place in (one, several)
    ]
    assert losses[0] == losses[1]
    assert recorded(several).seeds == recorded(one).seeds == (0, 1, 2, 3)


@pytest.mark.slow
def test_a_worker_whose_disk_is_full_is_told_and_the_others_go_on(tmp_path: Path):
    out, flag = tmp_path / "run", tmp_path / "full"
    flag.touch()
    # How long a file of the process may become: its records are longer, its standard error is not.
    limit = "__import__('resource').setrlimit(__import__('resource').RLIMIT_FSIZE, (3000, 3000))"
    made = written(
        tmp_path, "fp32", seeds=(0, 1), pause=f"seed and __import__('os').path.exists({str(flag)!r}) and {limit}"
    )

    def ends() -> dict[int, RunEndRecord]:
        return {r.seed: r for r in read_records(out / "records.jsonl") if isinstance(r, RunEndRecord)}

    compare(made, out, jobs=2)
    assert (ends()[0].status, ends()[1].status) == ("done", "failed")
    assert "File too large" in ends()[1].reason
    assert write_report(out).exists()
    flag.unlink()
    compare(made, out, jobs=2, resume=True)
    assert {end.status for end in ends().values()} == {"done"}


@pytest.mark.slow
def test_workers_end_with_a_comparison_that_is_killed(tmp_path: Path):
    out = tmp_path / "run"
    written(tmp_path, "fp32", "bf16", pause="True")
    command = ["compare", str(tmp_path / "my job.py"), "--recipes", "fp32,bf16", "--seeds", "1", "--jobs", "2"]
    program = f"from mixprec.cli import main; main({[*command, '--out', str(out)]!r})"
    comparison = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    places = [run_place(out, name, 0) for name in ("fp32", "bf16")]
    wait_for(lambda: all((place / "records.jsonl").exists() for place in places))
    comparison.kill()
    comparison.wait()

    def are_free() -> bool:
        try:
            refuse_running(out, [("fp32", 0), ("bf16", 0)])
        except ValueError:
            return False
        return True

    wait_for(are_free)


def test_a_workload_made_from_a_function_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="made from a function, which a process of its own cannot load"):
        compare(fits.comparison("fp32", "bf16"), tmp_path / "run", jobs=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "all"])
def test_jobs_are_a_number_or_auto(tmp_path: Path, jobs: int):
    with pytest.raises(ValueError, match=r"jobs is .*, expected a number of runs at once, 1 or more, or 'auto'"):
        compare(fits.comparison("fp32", "bf16"), tmp_path / "run", jobs=jobs)
