"""The loop: a batch, a step, and what is due after it."""

from __future__ import annotations

import copy
from collections.abc import Generator
from pathlib import Path
from typing import Any

from mixprec.monitor import Monitoring
from mixprec.monitor.export import Exporters
from mixprec.records import EventRecord, Record, RunEndRecord, Status, write_records
from mixprec.training import CheckpointNotWritten, Resumed, StepResult, prepare

from .._covered import coverage_of
from .._evaluating import evaluations
from .._folder import RECORDS
from .._rates import Rates
from .._runner import evaluation_steps
from .._workload import Workload
from ._conclusion import is_evaluated
from ._due import Due
from ._guard_of import guard_of
from ._position import Position, seed_all
from ._stop_signals import StopSignals
from ._training import Audience, Training

#: Steps that may be skipped one after another before the run counts as failed.
MOST_SKIPPED = 100


class NotTraining(ValueError):
    """No step could be applied for long."""


class Loop:
    """A workload under a session, one step after another.

    Args:
        training: what is to be done.
        workload: of its seed; its model is trained in place.
        folder: of the run.
        audience: hears of it.

    Attributes:
        session: that trains.
        steps: to be applied.

    Raises:
        ValueError: a recipe, a model and a folder that do not fit.
    """

    def __init__(self, training: Training, workload: Workload, folder: Path, audience: Audience) -> None:
        self._training, self._workload, self._folder, self._audience = training, workload, folder, audience
        self._twin, self.steps = copy.deepcopy(workload.model), workload.steps
        self._model = workload.model.train()
        optimizer = workload.optimizer(self._model.parameters())
        self._rates = Rates(optimizer, workload.schedule)
        self._exporters = Exporters(training.exporters)
        self._position = Position(workload.batches, training.seed)
        self.session = prepare(
            self._model,
            optimizer,
            training.recipe,
            clip_norm=workload.clip_norm,
            run=folder,
            seed=training.seed,
            total_steps=workload.steps,
            monitor=Monitoring(exporters=(self._exporters,)),
        )
        self._guarded = (
            None if training.guard is None else self.session.guard(guard_of(training.guard, training.targets))
        )
        every = training.evaluate_every
        self._evaluate_at = (
            evaluation_steps(self.steps) if every is None else {*range(every, self.steps + 1, every), self.steps}
        )
        self._due = Due(every=training.checkpoint_every, minutes=training.checkpoint_minutes)
        self._saved: int | None = None
        self._skipped_in_a_row = 0
        self._must_tell_coverage = True

    def resume(self) -> Resumed:
        """Go on from the newest whole checkpoint, or begin."""
        resumed = self.session.resume(extra=self._extra())
        self._saved = resumed.step if resumed.path is not None else None
        self._must_tell_coverage = self.session.applied == 0
        return resumed

    def run(self, stop: StopSignals) -> None:
        """Train, evaluate and save until all steps are applied, or a signal has come; the state is saved then.

        Raises:
            NotTraining: step after step was skipped.
            RunStopped: the guard has no rung left.
            CheckpointNotWritten: the last state could not be saved.
            Exception: whatever the workload's functions raise.
        """
        if self._saved and self.session.applied in self._evaluate_at and stop.came is None:
            self._evaluate_unless_done()
        if stop.came is None and self.session.applied < self.steps:
            for batch in self._batches():
                result = self._step(batch)
                self._after(result, batch, stop)
                if stop.came is not None or self.session.applied >= self.steps:
                    break
        if self._saved != self.session.applied:
            self._save()
        if stop.came is None:
            self._evaluate_unless_done()

    def tell(self, record: Record) -> None:
        """Write a record and let the exporters hear it."""
        write_records(self._folder / RECORDS, [record])
        self._exporters.take(record)

    def tell_event(self, name: str, message: str) -> None:
        """Write an event of the step that is at hand."""
        self.tell(
            EventRecord(
                recipe=self._recipe,
                seed=self._training.seed,
                step=self.session.applied,
                name=name,
                site="",
                message=message,
            )
        )

    def end(self, status: Status, reason: str = "") -> None:
        """Write how the run ended."""
        if status == "done" and self._guarded is not None:
            self._guarded.finish()
        self.tell(RunEndRecord(recipe=self._recipe, seed=self._training.seed, status=status, reason=reason))

    def close(self) -> None:
        """Let go of the folder, the signals and the exporters."""
        self.session.restore()
        self._exporters.close()

    def save_what_is_left(self) -> None:
        """The guard has ended the run at its last good state."""
        self._try_to_save()

    @property
    def _recipe(self) -> str:
        return self.session.recipe.name

    def _extra(self) -> dict[str, Any]:
        return {"data": self._position}

    def _batches(self) -> Generator[Any]:
        return iter(self._position) if self._guarded is None else self._guarded.batches(self._position)

    def _step(self, batch: Any) -> StepResult:
        self._rates.set(self.session.applied)
        return self.session.step(self._workload.loss(self._model, batch))

    def _after(self, result: StepResult, batch: Any, stop: StopSignals) -> None:
        if not result.applied:
            self._saved = None  # the guard knows of it, or the run went back: it is another state, of whatever step
            self._skipped_in_a_row += 1
            if self._skipped_in_a_row >= MOST_SKIPPED:
                raise NotTraining(f"{MOST_SKIPPED} steps were skipped one after another: {result.reason}")
            return
        self._skipped_in_a_row = 0
        if self._must_tell_coverage:
            self._must_tell_coverage = False
            self.tell(coverage_of(self.session, recipe=self._recipe, seed=self._training.seed))
        applied = self.session.applied
        if self._training.shadow_every is not None and applied % self._training.shadow_every == 0:
            backward = self._training.shadow_backward
            self.tell_event("shadow", str(self.session.shadow(self._workload.loss, batch, backward=backward)))
        is_busy = self._guarded is not None and self._guarded.is_busy
        if applied < self.steps and self._due.after(applied) and not is_busy:
            self._try_to_save()
        if applied in self._evaluate_at and applied < self.steps and stop.came is None:
            self._evaluate()

    def _try_to_save(self) -> None:
        """The disk may be full for a while: the checkpoint before stands, and the next one is tried."""
        try:
            self._save()
        except CheckpointNotWritten as error:
            self.tell_event("checkpoint not written", str(error))
            self._audience.says(f"{error}; training goes on, and the next checkpoint is tried")
        self._due.saved()

    def _save(self) -> None:
        path = self.session.save(extra=self._extra(), keep=self._training.keep)
        self._saved = self.session.applied
        self._due.saved()
        self._audience.says(f"saved {path}")

    def _evaluate_unless_done(self) -> None:
        if not is_evaluated(self._folder, self.session.applied):
            self._evaluate()

    def _evaluate(self) -> None:
        step, seed = self.session.applied, self._training.seed
        seed_all(seed, step)
        told = evaluations(self._workload, self._model, self._twin, recipe=self._recipe, seed=seed, step=step)
        for record in told:
            self.tell(record)
