"""One recipe under one seed, advanced step by step; what it measures comes back as records."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from mixprec.monitor import can_look_into_graphs
from mixprec.records import (
    CoverageRecord,
    EvaluationRecord,
    EventRecord,
    MemoryRecord,
    RunEndRecord,
    Status,
    StepRecord,
)
from mixprec.specs import Recipe
from mixprec.training import Event, StepResult, prepare

from ._covered import coverage_of
from ._evaluating import evaluations
from ._memory import Measured, peak_memory, process_bytes, saved_activations
from ._random_state import step_seed
from ._rates import Rates
from ._workload import Workload

Record = StepRecord | EvaluationRecord | EventRecord | CoverageRecord | MemoryRecord | RunEndRecord

#: The step whose peak of memory is measured; the session measures the first. No time ratio counts the first three.
PEAK_STEP = 2


class Trial:
    """A training run that is driven from outside, one step at a time.

    Args:
        workload: of this seed; its model is copied, never changed.
        recipe: what to train under.
        seed: of the stochastic roundings, and of what the model itself draws (dropout) at each step.
    """

    def __init__(self, workload: Workload, recipe: Recipe, seed: int) -> None:
        self._workload, self._recipe, self._seed = workload, recipe, seed
        self._model = copy.deepcopy(workload.model).train()
        self._optimizer = workload.optimizer(self._model.parameters())
        self._rates = Rates(self._optimizer, workload.schedule)
        self._session = prepare(
            self._model,
            self._optimizer,
            recipe,
            clip_norm=workload.clip_norm,
            seed=seed,
            total_steps=workload.steps,
        )
        self.device = next(self._model.parameters()).device
        self._saved, self._peak = Measured(), Measured()
        self._applied = 0
        self.step = 0
        self.ended = False

    @property
    def recipe(self) -> str:
        """Name of the recipe."""
        return self._recipe.name

    @property
    def seed(self) -> int:
        """The seed."""
        return self._seed

    @property
    def finished(self) -> bool:
        """Whether all steps have been taken."""
        return self.step == self._workload.steps

    def weights(self) -> dict[str, Tensor]:
        """The model's state as it stands, which an unconverted model loads."""
        return self._model.state_dict()

    def advance(self) -> Iterator[Record]:
        """Take one training step. A loss that is not finite ends the run as diverged."""
        # Equal draws for every recipe, whatever ran in between.
        torch.manual_seed(step_seed(self._seed, self.step))
        batch = self._workload.batches(self.step)
        self._rates.set(self._applied)  # a skipped step does not advance the schedule
        scale = self._session.loss_scale if self._session.recipe.loss_scale.kind != "none" else None
        if self.step == 0:
            yield from self._events(self._session.events)  # what the preparation told
        last = self._workload.steps - 1
        with ExitStack() as stack:
            if self.step == min(PEAK_STEP, last):
                self._peak = stack.enter_context(peak_memory(self.device, lambda: self._session.memory().held))
            self._synchronize()
            started = time.perf_counter()
            loss, result = self._train_on(batch)
            self._synchronize()
            seconds = time.perf_counter() - started
        yield self._step_record(loss, result, seconds, scale)
        yield from self._events(result.events)
        if self.step == min(PEAK_STEP, last):
            yield from self._measurements()
        self._applied += result.applied
        self.step += 1
        if not math.isfinite(loss):
            yield self.end("diverged", f"the loss was {loss} at step {self.step}")

    def _train_on(self, batch: object) -> tuple[float, StepResult]:
        if self.step == 0 and not can_look_into_graphs():
            with saved_activations(self._model) as self._saved:
                loss = self._workload.loss(self._model, batch)
        else:
            loss = self._workload.loss(self._model, batch)
        result = self._session.step(loss)
        return float(loss.detach()), result

    def evaluate(self, twin: nn.Module) -> Iterator[Record]:
        """Measure the quality in the recipe's own forward pass, and with the same weights in plain fp32.

        A loss that is not finite ends the run as diverged.

        Args:
            twin: an unconverted model of the same kind, whose weights are overwritten.
        """
        told = evaluations(self._workload, self._model, twin, recipe=self.recipe, seed=self.seed, step=self.step)
        for record in told:
            yield record
            loss = record.metrics.get("loss", math.nan)
            if not math.isfinite(loss) and not self.ended:
                where = "" if record.forward == "recipe" else ", with its weights in fp32"
                yield self.end("diverged", f"the evaluation's loss was {loss} after {self.step} steps{where}")

    def end(self, status: Status, reason: str = "") -> RunEndRecord:
        """Close the run: ``done``, ``diverged``, ``failed`` or ``interrupted``."""
        self.ended = True
        return RunEndRecord(recipe=self.recipe, seed=self.seed, status=status, reason=reason)

    def _step_record(self, loss: float, result: StepResult, seconds: float, scale: float | None) -> StepRecord:
        return StepRecord(
            recipe=self.recipe,
            seed=self.seed,
            step=self.step,
            loss=loss,
            seconds=seconds,
            applied=result.applied,
            grad_norm=result.grad_norm,
            loss_scale=scale,
            tokens=self._workload.tokens_per_step,
        )

    def _events(self, events: Iterable[Event]) -> Iterator[EventRecord]:
        for event in events:
            yield EventRecord(
                recipe=self.recipe,
                seed=self.seed,
                step=self.step,
                name=event.name,
                site=event.site,
                message=event.message,
            )

    def _measurements(self) -> Iterator[Record]:
        yield coverage_of(self._session, recipe=self.recipe, seed=self.seed)
        memory = self._session.memory()
        yield MemoryRecord(
            recipe=self.recipe,
            seed=self.seed,
            saved_activation_bytes=self._saved.bytes if memory.saved_bytes is None else memory.saved_bytes,
            peak_bytes=self._peak.bytes,
            rss_bytes=process_bytes(),
            parameters=memory.parameters,
            bytes_by_kind=memory.by_kind,
            saved_by_site=memory.saved,
        )

    def _synchronize(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)
