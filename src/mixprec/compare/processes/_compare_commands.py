"""Comparing runs of a command: start, read, record, and never run twice what has ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from mixprec.records import ComparisonRecord, EvaluationRecord, Record, RunEndRecord, StepRecord, read_records

from .._compared import first_seeds
from .._folder import RECORDS, RunFolder, recorded, refuse_busy, refuse_occupied
from .._interrupt import Interrupt
from .._machine import machine_facts, package_versions
from .._metric_goal import directions
from .._sequential import run_until_resolved
from ._black_box import BlackBox
from ._command_job import CommandJob
from ._pool import run_jobs
from ._run_place import refuse_running
from ._slots import child_environment, cores, slots_by_cores


def compare_commands(
    box: BlackBox,
    out: str | Path,
    *,
    jobs: int | Literal["auto"] = 1,
    resume: bool = False,
    on_record: Callable[[Record], None] | None = None,
) -> Path:
    """Run a command for each name and seed, read the metrics that it writes, and record them as a comparison.

    Output of each run goes to ``stdout.txt`` and ``stderr.txt`` in its folder, ``runs/NAME-seedN``. A run whose metric
    is missing, no number, or cannot be read ends as ``failed``, as one that ends with an error does; one whose loss is
    not finite as ``diverged``. The others go on. Ctrl-C (``KeyboardInterrupt``, raised again) stops the processes.

    Args:
        box: what is run and read.
        out: the run folder, new or empty.
        jobs: runs at once; ``"auto"``: as many as this process may use cores. Where there are several, each is told
            to use its share of the cores (``OMP_NUM_THREADS``, unless that is set).
        resume: go on in a folder of an earlier run: what ended there as done or diverged is kept. Names and seeds may
            be added.
        on_record: called with each record once it is written.

    Returns:
        The run folder.

    Raises:
        ValueError: for a folder that cannot be used, or in which a process of an earlier start still goes on.
        OSError: if the folder cannot be written.
    """
    told, path = on_record or (lambda record: None), Path(out)
    slots = slots_by_cores(jobs, len(box.names) * len(box.seeds))
    if resume:
        refuse_busy(path)
        refuse_running(path, ((name, seed) for seed in box.seeds for name in box.names))
    else:
        refuse_occupied(path)
    header = _header(box, slots, box.steps or (recorded(path).steps if resume else 0))
    folder = (RunFolder.resume if resume else RunFolder.create)(path, header, ())
    told(header)
    with Interrupt() as interrupt, closing(_run(box, folder, header, slots, interrupt.check)) as records:
        for record in records:
            folder.add(record)
            told(record)
    if box.steps is None:
        _tell_steps(folder)
    return folder.path


def _run(
    box: BlackBox, folder: RunFolder, header: ComparisonRecord, slots: int, check: Callable[[], None]
) -> Generator[Record]:
    """What the commands write; with a plan of pairs, look by look."""
    environment = child_environment(slots)

    def train(names: Sequence[str], seeds: Sequence[int]) -> Generator[Record]:
        yield from run_jobs(_jobs(box, folder, environment, names, seeds), slots, check)

    if box.plan is None:
        return train(box.names, box.seeds)
    return run_until_resolved(train, folder.header or header, box.names, box.seeds, folder.kept)


def _jobs(
    box: BlackBox, folder: RunFolder, environment: dict[str, str], names: Sequence[str], seeds: Sequence[int]
) -> Iterator[CommandJob]:
    for seed in seeds:
        for name in names:
            if (name, seed) not in folder.finished:
                yield CommandJob(box, folder.path, name, seed, environment)


def _header(box: BlackBox, slots: int, steps: int) -> ComparisonRecord:
    asked = {} if box.steps is None else {"steps": str(box.steps)}
    return ComparisonRecord(
        workload=box.program,
        recipes=box.names,
        baseline=box.baseline,
        seeds=first_seeds(box.seeds, box.plan),
        steps=steps,
        machine={**machine_facts("cpu"), "threads": max(1, cores() // slots), "jobs": slots, "device": "the command's"},
        versions=package_versions(),
        max_pairs=None if box.plan is None else box.plan.max_pairs,
        critical=() if box.plan is None else box.plan.critical,
        better=directions(box.targets, {}),
        targets=box.targets,
        data={"command": box.command, **asked, **{f"metric {m.name}": f"{m.file}:{m.key}" for m in box.sources}},
    )


def _tell_steps(folder: RunFolder) -> None:
    """Say how many steps the runs had, which nobody knew when they began."""
    records = read_records(folder.path / RECORDS)
    headers = [record for record in records if isinstance(record, ComparisonRecord)]
    ended_well = {(r.recipe, r.seed) for r in records if isinstance(r, RunEndRecord) and r.status == "done"}
    steps = [
        record.step + isinstance(record, StepRecord)
        for record in records
        if isinstance(record, StepRecord | EvaluationRecord) and (record.recipe, record.seed) in ended_well
    ]
    if steps:
        folder.add(dataclasses.replace(headers[-1], steps=max(steps)))
