"""Kill a guarded run at an instant, in snapshots and on the way back too: nothing differs, or it says what does."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mixprec.records import EventRecord, IncidentRecord, RunEndRecord, group_by_recipe, read_records, salvage_records
from tests.compare.training_run.killed import digest
from tests.compare.training_run.killed_guarded import FLIPS, ROWS, STEPS, Death, train_here

_CONTEXT = multiprocessing.get_context("forkserver")
_DIFFERS = "what follows differs from that of a run that was not interrupted"


@dataclass(frozen=True)
class Instant:
    """Once the records have grown by so many bytes, after a pause [s]."""

    bytes: int
    pause: float


Kill = Instant | Death


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _whole(tmp_path_factory, FLIPS)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _whole(tmp_path_factory, ROWS)


def _whole(tmp_path_factory: pytest.TempPathFactory, faults: dict[str, Any]) -> Path:
    _CONTEXT.set_forkserver_preload(["mixprec", "mixprec.training", "tests.compare.training_run.killed_guarded"])
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert _run(folder, faults) == 0
    return folder


def _run(folder: Path, faults: dict[str, Any], kill: Kill | None = None) -> int | None:
    """Train to the end, or until it is killed."""
    records = folder / "records.jsonl"
    before = _size(records)
    process = _CONTEXT.Process(target=train_here, args=(str(folder), faults, kill if isinstance(kill, Death) else None))
    process.start()
    if isinstance(kill, Instant):
        while process.is_alive() and _size(records) < before + kill.bytes:
            time.sleep(0.0005)
        time.sleep(kill.pause)
        process.kill()
    process.join(60)
    return process.exitcode


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _incidents(folder: Path) -> list[IncidentRecord]:
    file = folder / "records.jsonl"
    found = salvage_records(file).records if file.exists() else ()
    return [record for record in found if isinstance(record, IncidentRecord)]


def _events(folder: Path) -> list[str]:
    return [r.message for r in read_records(folder / "records.jsonl") if isinstance(r, EventRecord)]


def _losses(folder: Path) -> dict[int, float | None]:
    _, by_recipe = group_by_recipe(read_records(folder / "records.jsonl"))
    (own,) = by_recipe.values()
    (steps,) = own.steps.values()
    return {step: record.loss for step, record in steps.items() if record.applied}


def _check_incidents(folder: Path, before: list[IncidentRecord]) -> None:
    """None is lost, none is open, and no number is of two."""
    now = _incidents(folder)
    assert now[: len(before)] == before
    last = {record.number: record for record in now}
    assert sorted(last) == list(range(1, len(last) + 1))
    assert {record.outcome for record in last.values()} <= {"recovered", "again"}
    assert {(r.step, r.trigger, r.rung) for r in now} == {(r.step, r.trigger, r.rung) for r in last.values()}
    assert all((r.step, r.trigger) == (last[r.number].step, last[r.number].trigger) for r in now)


def _check(folder: Path, whole: Path, faults: dict[str, Any], kills: list[Kill], *, may_differ: bool = False) -> bool:
    """Kill a run over and over, then let it end; whether it came to the same."""
    statuses = [_run(folder, faults, kill) for kill in kills]
    assert -signal.SIGKILL in statuses, "no kill came before the run was done"
    before = _incidents(folder)
    assert _run(folder, faults) == 0
    assert [r.status for r in read_records(folder / "records.jsonl") if isinstance(r, RunEndRecord)] == ["done"]
    _check_incidents(folder, before)
    is_same = digest(folder) == digest(whole) and _losses(folder) == _losses(whole)
    assert is_same or (may_differ and any(_DIFFERS in message for message in _events(folder))), kills
    return is_same


def _instants(chance: random.Random, whole: Path, count: int) -> list[Kill]:
    size = _size(whole / "records.jsonl")
    return [Instant(chance.randrange(size // 3), chance.uniform(0, 0.02)) for _ in range(count)]


def _rungs(folder: Path) -> Counter[str]:
    assert len(_losses(folder)) == STEPS
    return Counter(record.rung for record in {record.number: record for record in _incidents(folder)}.values())


def test_the_whole_run_has_what_it_is_to_have(flips: Path):
    assert _rungs(flips) == {"skip": 3, "rewind": 4}


def test_killed_at_a_few_instants(flips: Path, tmp_path: Path):
    chance = random.Random(1)
    kills = [*_instants(chance, flips, 3), Death(name="load_parts", call=1), Death(name="gather_parts", call=9)]
    _check(tmp_path / "run", flips, FLIPS, kills)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("name", ["load_parts", "gather_parts", "act"])
def test_killed_in_snapshots_and_on_the_way_back(flips: Path, tmp_path: Path, name: str, is_after: bool):
    kills: list[Kill] = [Death(name=name, call=call, is_after=is_after) for call in (1, 2, 3)]
    _check(tmp_path / "run", flips, FLIPS, kills)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_fifty_instants(flips: Path, tmp_path: Path, seed: int):
    chance = random.Random(seed)
    for i in range(2):
        _check(tmp_path / f"run{i}", flips, FLIPS, _instants(chance, flips, 5))


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
def test_batches_that_are_left_out_are_so_again_or_an_event_says_what_differs(
    rows: Path, tmp_path: Path, is_after: bool
):
    assert _rungs(rows) == {"skip": 5, "rewind": 1}
    chance = random.Random(is_after)
    same = [
        _check(tmp_path / "planted", rows, ROWS, [Death(name="load_parts", call=1, is_after=is_after)], may_differ=True)
    ]
    for i in range(2):
        same.append(_check(tmp_path / f"run{i}", rows, ROWS, _instants(chance, rows, 2), may_differ=True))
    assert any(same)
