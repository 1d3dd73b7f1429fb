"""One run of a drill: a workload with a fault, with or without the guard."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from mixprec.guard import Guard
from mixprec.monitor import Monitoring
from mixprec.records import Forward, Record, RunEndRecord, write_records
from mixprec.specs import Recipe
from mixprec.training import RunStopped, StepResult, prepare

from .._evaluating import evaluations
from .._folder import RECORDS
from .._loading import WorkloadSource
from .._random_state import own_random_state
from .._rates import Rates
from .._user_code import describe
from .._workload import Workload
from ..training_run import seed_all
from ._drilled import Rehearsed
from ._fault import Fault
from ._no_fault import NoFault
from ._planted_batches import PlantedBatches

#: How often operands are sampled and a shadow is measured in a run, however short: a real one is long beside that.
LOOKS = 20
#: A run that has this many steps skipped one after another is given up; and one that takes so many times its steps.
MOST_SKIPPED, MOST_TIMES = 50, 4


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A run that is to be made.

    Attributes:
        source: gives the workload.
        recipe: to train in.
        seed: of weights, data and casts.
        device: where.
        guard: that watches; ``None``: the run is left alone.
        fault: that is planted.
        out: folder of the drill.
        folder: of the run, in it.
    """

    source: WorkloadSource
    recipe: Recipe
    seed: int
    device: str
    guard: Guard | None
    fault: Fault
    out: Path
    folder: str


def rehearse(rehearsal: Rehearsal) -> Rehearsed:
    """Make the run. Random states of the caller stay as they are.

    Returns:
        What came of it. An exception of the workload ends a run with a fault, as one of the fault's consequences.

    Raises:
        Exception: whatever the workload's functions raise in a run without a fault.
    """
    workload = rehearsal.source.build(rehearsal.seed, rehearsal.device)
    with own_random_state(rehearsal.device):
        run = _Run(rehearsal, workload)
        try:
            return run.made()
        finally:
            run.session.restore()


def looks_every(steps: int) -> int:
    """Steps from one sample of the operands, and one shadow, to the next.

    Example:
        >>> looks_every(200)
        10
    """
    return max(1, steps // LOOKS)


class _Run:
    def __init__(self, rehearsal: Rehearsal, workload: Workload) -> None:
        self._rehearsal, self._workload, self._fault = rehearsal, workload, rehearsal.fault
        self._twin = copy.deepcopy(workload.model)
        self._model = workload.model.train()
        optimizer = workload.optimizer(self._model.parameters())
        # A fault of the schedule multiplies the rates that are set before each step, so that they are set at each.
        self._rates = Rates(optimizer, workload.schedule or (lambda applied: 1.0))
        self.session = prepare(
            self._model,
            optimizer,
            rehearsal.fault.recipe(rehearsal.recipe),
            clip_norm=workload.clip_norm,
            run=rehearsal.out / rehearsal.folder,
            seed=rehearsal.seed,
            total_steps=workload.steps,
            monitor=Monitoring(every=looks_every(workload.steps)),
        )
        self._data = PlantedBatches(workload.batches, rehearsal.seed, rehearsal.fault)
        self._calls, self._skipped_in_a_row = 0, 0
        self._planted: int | None = None
        self._seen = list[int]()

    def made(self) -> Rehearsed:
        """Train to the end, or to what ends it, and evaluate."""
        began = time.perf_counter()
        ended, losses = "", dict[Forward, float]()
        try:
            ended = self._train()
            seconds = time.perf_counter() - began
            losses = {} if ended else self._evaluate()
        except Exception as error:
            if isinstance(self._fault, NoFault):
                raise
            seconds, ended = time.perf_counter() - began, describe(error, self._rehearsal.source.file)
        ended = ended or "; ".join(f"the evaluation's loss is {v} ({f})" for f, v in losses.items() if not isfinite(v))
        status = "failed" if ended else "done"
        self._write([RunEndRecord(recipe=self.session.recipe.name, seed=self._seed, status=status, reason=ended)])
        return Rehearsed(
            losses=losses,
            ended=ended,
            calls=self._calls,
            applied=self.session.applied,
            seconds=seconds,
            planted=self._planted,
            incidents=self.session.incidents,
            seen=tuple(self._seen),
            folder=self._rehearsal.folder,
        )

    @property
    def _seed(self) -> int:
        return self._rehearsal.seed

    def _train(self) -> str:
        """Why it did not come to its end; empty where it did."""
        steps = self._workload.steps
        for batch in self._batches():
            self._look(batch)
            try:
                result = self._step(batch)
            except RunStopped as error:
                return str(error)
            finally:
                self._calls += 1
                self._seen += [self._calls - 1] * (len(self.session.incidents) - len(self._seen))
            if self.session.applied >= steps:
                return ""
            self._skipped_in_a_row = 0 if result.applied else self._skipped_in_a_row + 1
            if self._skipped_in_a_row >= MOST_SKIPPED:
                return f"{MOST_SKIPPED} steps were skipped one after another: {result.reason}"
            if self._calls >= MOST_TIMES * steps:
                return f"{self._calls} calls of step have come to {self.session.applied} steps of {steps}"
        return f"the batches ended after {self._calls}"

    def _batches(self) -> Iterable[Any]:
        if self._rehearsal.guard is None:
            return self._data
        return self.session.guard(self._rehearsal.guard).batches(self._data)

    def _look(self, batch: Any) -> None:
        """Tell the guard now and then what the precision alone costs."""
        if self._rehearsal.guard is not None and self.session.applied % looks_every(self._workload.steps) == 0:
            self.session.shadow(self._workload.loss, batch)

    def _step(self, batch: Any) -> StepResult:
        self._rates.set(self.session.applied)
        self._fault.before_step(self.session, self._calls)
        now = {"calls": self._calls, "batches": self._data.number, "applied": self.session.applied}
        if self._planted is None and now[self._fault.clock] >= self._fault.at:
            self._planted = self._calls
        return self.session.step(self._workload.loss(self._model, batch))

    def _evaluate(self) -> dict[Forward, float]:
        step = self.session.applied
        seed_all(self._seed, step)
        recipe = self.session.recipe.name
        told = evaluations(self._workload, self._model, self._twin, recipe=recipe, seed=self._seed, step=step)
        records = list(told)
        self._write(records)
        return {record.forward: record.metrics["loss"] for record in records}

    def _write(self, records: Iterable[Record]) -> None:
        write_records(self._rehearsal.out / self._rehearsal.folder / RECORDS, records)
