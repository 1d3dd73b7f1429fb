"""A run of a workload in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mixprec._quiet import QUIET
from mixprec.records import EventRecord, Record, RecordFollower, RunEndRecord, StepRecord
from mixprec.specs import Recipe

from .._comparison import Comparison
from .._folder import RECORDS
from ..workloads import BUILT_IN
from ._child import STDERR, STDOUT, Child
from ._failure import killed_or_failed
from ._run_place import make_place, remove_empty, run_place

ORDER = "run.json"


def refuse_unloadable(comparison: Comparison) -> None:
    """Refuse a workload that another process could not load.

    Raises:
        ValueError: it was made from a function.
    """
    source = comparison.source
    if source.file is None and BUILT_IN.get(source.name) is not source.function:
        raise ValueError(
            f"workload '{source.name}' was made from a function, which a process of its own cannot load: expected a "
            "built-in name or a file, as load_workload gives them, or jobs=1"
        )


class WorkloadJob:
    """One recipe under one seed, by ``python -m mixprec.compare.processes``, whose records are followed.

    Args:
        comparison: that it is a run of.
        folder: the comparison's.
        recipe: to train under.
        seed: of the run.
        threads: of torch in the process.
    """

    def __init__(self, comparison: Comparison, folder: Path, recipe: Recipe, seed: int, threads: int) -> None:
        self.recipe, self.seed = recipe.name, seed
        self._comparison, self._recipe, self._threads = comparison, recipe, threads
        self._folder, self._place = folder.absolute(), run_place(folder.absolute(), recipe.name, seed)
        self._follower = RecordFollower(self._place / RECORDS)
        self._end: RunEndRecord | None = None
        self._steps = 0

    def start(self) -> Child:
        """Start the process, which ends with this one."""
        place = make_place(self._folder, self.recipe, self.seed)
        source = self._comparison.source
        order = {
            "workload": source.name,
            "steps": source.steps,
            "data": source.options.get("data"),
            "sha256": source.sha256,
            "recipe": self._recipe.to_toml(),
            "seed": self.seed,
            "device": self._comparison.device,
            "threads": self._threads,
        }
        (place / ORDER).write_text(json.dumps(order), encoding="utf-8")
        # -P: a file of the working folder must not stand in for a package of the same name.
        words = [sys.executable, "-P", "-m", "mixprec.compare.processes", str(place)]
        return Child(words, place, {**QUIET, **os.environ}, holds_stdin=True)

    def news(self) -> Iterator[Record]:
        """What the process has written since; its last word is kept for ``end``."""
        for record in self._follower.read().records:
            if isinstance(record, RunEndRecord):
                self._end = record
            else:
                self._steps += isinstance(record, StepRecord)
                yield record

    def stopped(self) -> Iterator[Record]:
        """What it has written since."""
        yield from self.news()

    def end(self, child: Child, status: int) -> Iterator[Record]:
        """How the run ended, by its own word; a process that left none was killed or broke off."""
        if self._end is None:
            yield from killed_or_failed(self.recipe, self.seed, child, status, step=self._steps)
            return
        yield from self._warnings(child)
        yield self._end
        self._tidy()

    def _warnings(self, child: Child) -> Iterator[Record]:
        """What the workload said on standard error of a run that ended by itself."""
        lines = child.last_lines()
        if lines:
            yield EventRecord(
                recipe=self.recipe, seed=self.seed, step=0, name="stderr", site="", message="\n".join(lines)
            )

    def _tidy(self) -> None:
        """Drop what the comparison's own records hold now; what the workload printed stays."""
        for name in (RECORDS, ORDER):
            (self._place / name).unlink(missing_ok=True)
        for name in (STDOUT, STDERR):
            file = self._place / name
            if file.exists() and not file.stat().st_size:
                file.unlink()
        remove_empty(self._place)
