"""Running a comparison's recipes and seeds at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path

from mixprec.records import ComparisonRecord, Record

from .._comparison import Comparison
from ._pool import run_jobs
from ._run_place import refuse_running
from ._slots import threads_of
from ._workload_job import WorkloadJob, refuse_unloadable


def check_processes(comparison: Comparison, folder: Path) -> None:
    """Refuse what cannot run in processes, before anything is written.

    Raises:
        ValueError: a workload that they could not load, or a process of an earlier start that still goes on.
    """
    refuse_unloadable(comparison)
    refuse_running(folder, ((recipe.name, seed) for recipe in comparison.recipes for seed in comparison.seeds))


def with_slots(header: ComparisonRecord, slots: int) -> ComparisonRecord:
    """The header with how many runs go at once, and the threads of each."""
    return replace(header, machine={**header.machine, "threads": threads_of(slots), "jobs": slots})


def run_in_processes(
    comparison: Comparison,
    folder: Path,
    slots: int,
    *,
    finished: Iterable[tuple[str, int]] = (),
    check: Callable[[], None] = lambda: None,
) -> Generator[Record]:
    """Train, and yield what is measured as it is measured, from so many processes at once.

    Numbers are those of one process with as many threads. A process that is killed ends its run as ``failed``.

    Args:
        comparison: what to run.
        folder: the comparison's, for the runs' own folders.
        slots: processes at once.
        finished: (recipe, seed) pairs to leave out.
        check: raises a Ctrl-C that something else has swallowed.
    """
    done, threads = set(finished), threads_of(slots)
    jobs = (
        WorkloadJob(comparison, folder, recipe, seed, threads)
        for seed in comparison.seeds
        for recipe in comparison.recipes
        if (recipe.name, seed) not in done
    )
    yield from run_jobs(jobs, slots, check)
