"""The weights that a plan is measured at: after some steps of training, or from a checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mixprec.records import RunEndRecord
from mixprec.specs import Recipe
from mixprec.training import prepare
from mixprec.training.checkpoint import read_checkpoint

from .._loading import WorkloadSource
from .._random_state import own_random_state
from .._trial import Trial
from .._user_code import WorkloadError, calling
from .._workload import Workload


@dataclass(frozen=True)
class Start:
    """A workload that goes on from trained weights.

    Attributes:
        workload: whose model has them, and whose step 0 is the one that follows.
        steps: that were taken before.
        file: the user's, whose lines messages name.
    """

    workload: Workload
    steps: int
    file: Path | None


def start_after(source: WorkloadSource, base: Recipe, *, steps: int, seed: int, device: str) -> Start:
    """Train a workload for some steps under the base recipe.

    Raises:
        WorkloadError: a function of the workload that fails, or a run that diverges.
        ValueError: a negative number of steps.
    """
    if steps < 0:
        raise ValueError(f"--steps is {steps}: expected 0 or more training steps before measuring")
    workload = source.build(seed, device)
    if steps == 0:
        return Start(workload, 0, source.file)
    with own_random_state(device), calling(f"training {steps} steps under {base.name}", source.file):
        trial = Trial(replace(workload, steps=max(steps, workload.steps)), base, seed)
        for _ in range(steps):
            for record in trial.advance():
                if isinstance(record, RunEndRecord):
                    raise WorkloadError(f"{source.name}: {record.reason}: measuring needs a baseline that trains")
    model = copy.deepcopy(workload.model)
    model.load_state_dict(trial.weights())
    return Start(_going_on(workload, model, steps), steps, source.file)


def start_from(source: WorkloadSource, base: Recipe, checkpoint: Path, *, seed: int, device: str) -> Start:
    """Take the weights of a checkpoint that a session saved.

    Raises:
        OSError: there is none.
        ValueError: it is damaged, or of another model.
    """
    workload = source.build(seed, device)
    trained = copy.deepcopy(workload.model)
    extra: dict[str, Any] = {} if checkpoint.is_file() else read_checkpoint(checkpoint).parts["session"]["extra"]
    with own_random_state(device):
        optimizer = workload.optimizer(trained.parameters())
        session = prepare(trained, optimizer, base, clip_norm=workload.clip_norm, seed=seed, total_steps=workload.steps)
        resumed = session.resume(checkpoint, extra={name: _Ignored() for name in extra}, convert=True)
    model = copy.deepcopy(workload.model)
    model.load_state_dict(trained.state_dict())
    return Start(_going_on(workload, model, resumed.step), resumed.step, source.file)


def shifted(workload: Workload, by: int) -> Workload:
    """The same workload whose step 0 is a later one."""
    batches, schedule = workload.batches, workload.schedule
    later: Callable[[int], float] | None = None if schedule is None else lambda step: schedule(step + by)
    return replace(workload, batches=lambda step: batches(step + by), schedule=later)


def held_out_loss(workload: Workload, model: nn.Module) -> float:
    """The loss of the workload's own evaluation."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        value = float(workload.evaluate(model)["loss"])
    model.train(was_training)
    return value


def _going_on(workload: Workload, model: nn.Module, steps: int) -> Workload:
    return replace(shifted(workload, steps), model=model)


class _Ignored:
    """Stands for an object of the user's whose state a checkpoint holds."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict: Any, /) -> None:
        """Nothing is done with it."""
