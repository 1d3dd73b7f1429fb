"""The main job: run, record, and leave nothing measured behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mixprec.records import ComparisonRecord, Record, RunEndRecord, StepRecord

from ._comparison import Comparison, check
from ._folder import RunFolder, refuse_busy, refuse_occupied
from ._interrupt import Interrupt
from ._runner import run
from ._sequential import run_until_resolved


def compare(
    comparison: Comparison,
    out: str | Path,
    *,
    resume: bool = False,
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
    with Interrupt() as interrupt:
        header = check(comparison)
        interrupt.check()
        start = RunFolder.resume if resume else RunFolder.create
        folder = start(Path(out), header, comparison.recipes)
        told(header)
        running: set[tuple[str, int]] = set()
        try:
            for record in _trained(comparison, header, folder):
                folder.add(record)
                _follow(running, record)
                told(record)
                interrupt.check()
        except KeyboardInterrupt:
            for recipe, seed in sorted(running):
                folder.add(RunEndRecord(recipe=recipe, seed=seed, status="interrupted", reason="stopped by the user"))
            raise
    return folder.path


def _trained(comparison: Comparison, header: ComparisonRecord, folder: RunFolder) -> Iterator[Record]:
    """What is measured; with a plan of pairs, look by look."""
    if comparison.plan is None:
        return run(comparison, finished=folder.finished)

    def train(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Record]:
        recipes = tuple(recipe for recipe in comparison.recipes if recipe.name in names)
        return run(replace(comparison, recipes=recipes, seeds=tuple(seeds), plan=None), finished=folder.finished)

    return run_until_resolved(train, folder.header or header, comparison.names, comparison.seeds, folder.kept)


def _follow(running: set[tuple[str, int]], record: Record) -> None:
    if isinstance(record, StepRecord):
        running.add((record.recipe, record.seed))
    elif isinstance(record, RunEndRecord):
        running.discard((record.recipe, record.seed))
