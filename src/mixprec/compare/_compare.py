"""The main job: run, record, and leave nothing measured behind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from mixprec.records import ComparisonRecord, Record, RunEndRecord, StepRecord

from ._comparison import Comparison, check
from ._folder import RunFolder, refuse_busy, refuse_occupied
from ._interrupt import Interrupt
from ._runner import run
from ._sequential import run_until_resolved
from .processes import check_processes, run_in_processes, slots_of, with_slots


def compare(
    comparison: Comparison,
    out: str | Path,
    *,
    resume: bool = False,
    jobs: int | Literal["auto"] = 1,
    on_record: Callable[[Record], None] | None = None,
) -> Path:
    """Train a workload under several recipes and seeds, and record what each costs and loses.

    With a plan of pairs, seeds are added until each recipe's gaps are resolved.

    Everything is tried once before anything is written. A run whose loss is not finite ends as ``diverged``, one
    that raises as ``failed``; the others go on. Records are written as they are measured, so an interruption
    (``KeyboardInterrupt``, raised again) keeps them.

    Args:
        comparison: what to run.
        out: the run folder, new or empty; ``mixprec.report.write_report`` renders it.
        resume: go on in a folder that holds an earlier run: what ended there is kept, the rest starts again. Recipes
            and seeds may be added; the workload, its data, steps and baseline must be the same.
        jobs: runs at once, each in a process of its own; ``"auto"``: as many as cores, and the memory that the largest
            is forecast to need, allow. 1: all in this process, whose times are fair. The threads of torch are shared
            among them.
        on_record: called with each record once it is written, first with the ``ComparisonRecord``.

    Returns:
        The run folder.

    Raises:
        ValueError: for a workload, recipe or folder that cannot be used.
        OSError: if the folder cannot be written.
    """
    told = on_record or (lambda record: None)
    if resume:
        refuse_busy(Path(out))
    else:
        refuse_occupied(Path(out))
    slots = slots_of(comparison, jobs)
    with Interrupt() as interrupt:
        header = check(comparison)
        interrupt.check()
        if slots > 1:
            check_processes(comparison, Path(out))
            header = with_slots(header, slots)
        start = RunFolder.resume if resume else RunFolder.create
        folder = start(Path(out), header, comparison.recipes)
        told(header)
        with closing(_trained(comparison, header, folder, slots, interrupt)) as records:
            _record(records, folder, told, interrupt)
    return folder.path


def _record(records: Iterable[Record], folder: RunFolder, told: Callable[[Record], None], interrupt: Interrupt) -> None:
    """Write and tell each record; runs that an interruption cuts short are told as such."""
    running: set[tuple[str, int]] = set()
    try:
        for record in records:
            folder.add(record)
            _follow(running, record)
            told(record)
            interrupt.check()
    except KeyboardInterrupt:
        for recipe, seed in sorted(running):
            folder.add(RunEndRecord(recipe=recipe, seed=seed, status="interrupted", reason="stopped by the user"))
        raise


def _trained(
    comparison: Comparison, header: ComparisonRecord, folder: RunFolder, slots: int, interrupt: Interrupt
) -> Generator[Record]:
    """What is measured; with a plan of pairs, look by look."""

    def train(names: Sequence[str], seeds: Sequence[int]) -> Generator[Record]:
        recipes = tuple(recipe for recipe in comparison.recipes if recipe.name in names)
        part = replace(comparison, recipes=recipes, seeds=tuple(seeds), plan=None)
        if slots == 1:
            return run(part, finished=folder.finished)
        return run_in_processes(part, folder.path, slots, finished=folder.finished, check=interrupt.check)

    if comparison.plan is None:
        return train(comparison.names, comparison.seeds)
    return run_until_resolved(train, folder.header or header, comparison.names, comparison.seeds, folder.kept)


def _follow(running: set[tuple[str, int]], record: Record) -> None:
    if isinstance(record, StepRecord):
        running.add((record.recipe, record.seed))
    elif isinstance(record, RunEndRecord):
        running.discard((record.recipe, record.seed))
