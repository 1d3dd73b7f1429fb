"""Kill a run at an instant, start it again by the same call: nothing differs from one that was never killed."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from pathlib import Path

import pytest

from mixprec.records import EvaluationRecord, group_by_recipe, read_records
from tests.compare.training_run.killed import STEPS, digest, train_here

_CONTEXT = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _CONTEXT.set_forkserver_preload(["mixprec", "mixprec.training", "tests.compare.training_run.killed"])
    folder = tmp_path_factory.mktemp("whole") / "run"
    _run(folder)
    return folder


def _run(folder: Path, kill_after: int | None = None, pause: float = 0.0) -> int | None:
    """Train to the end; or kill once the records have grown by so many bytes, after a pause [s]."""
    records = folder / "records.jsonl"
    before = _size(records)
    process = _CONTEXT.Process(target=train_here, args=(str(folder),))
    process.start()
    if kill_after is not None:
        while process.is_alive() and _size(records) < before + kill_after:
            time.sleep(0.0005)
        time.sleep(pause)
        process.kill()
    process.join(60)
    return process.exitcode


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _curves(folder: Path) -> tuple[object, object]:
    """What must not differ: losses of applied steps, and evaluations."""
    _, by_recipe = group_by_recipe(read_records(folder / "records.jsonl"))
    (own,) = by_recipe.values()
    (steps,) = own.steps.values()
    losses = {step: record.loss for step, record in steps.items() if record.applied}
    evaluations = {key: record.metrics for key, record in own.evaluations.items()}
    return losses, evaluations


def _check_kills(folder: Path, whole: Path, chance: random.Random, count: int) -> None:
    """Kill the run over and over, then let it end."""
    size = _size(whole / "records.jsonl")
    instants = [(chance.randrange(size // 3), chance.uniform(0, 0.02)) for _ in range(count)]
    kills = [_run(folder, *instant) == -signal.SIGKILL for instant in instants]
    assert any(kills), "no kill came before the run was done"
    assert _run(folder) == 0
    assert digest(folder) == digest(whole)
    assert _curves(folder) == _curves(whole)


def test_the_whole_run_is_evaluated_at_each_quarter(whole: Path):
    records = read_records(whole / "records.jsonl")
    assert {record.step for record in records if isinstance(record, EvaluationRecord)} == {15, 30, 45, STEPS}


def test_killed_at_a_few_instants(whole: Path, tmp_path: Path):
    _check_kills(tmp_path / "run", whole, random.Random(1), 4)


@pytest.mark.slow
def test_killed_at_fifty_instants(whole: Path, tmp_path: Path):
    chance = random.Random(2)
    for i in range(10):
        _check_kills(tmp_path / f"run{i}", whole, chance, 5)
