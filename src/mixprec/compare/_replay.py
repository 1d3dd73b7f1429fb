"""Replaying one step of a run: its workload, weights, random state and batch again, watched."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mixprec.monitor import Finding, Monitoring, load_random_states, random_states
from mixprec.monitor.doctor import RunContents, read_run
from mixprec.monitor.recorder import DumpState, read_dump_state
from mixprec.records import count
from mixprec.specs import Recipe, load_recipe
from mixprec.training import Session, prepare
from mixprec.training.checkpoint import find_checkpoints, read_checkpoint

from ._loading import WorkloadSource
from ._random_state import step_seed
from ._rates import Rates
from ._replay_batch import BatchCheck
from ._replay_target import Replay, Target, find_target
from ._user_code import calling, describe
from ._workload import Workload

_WATCHED = Monitoring(every=0, alarms=False, recorder_steps=0)


@dataclass(kw_only=True)
class Replayed:
    """What a replayed step showed.

    Attributes:
        step: applied steps before it.
        recipe: of the run.
        seed: of the run.
        told: where its weights, random state and batch are from, and whether it went as recorded; one sentence each.
        is_bad: whether it was skipped again, or raised again.
        findings: what watchers found in it.
    """

    step: int
    recipe: str
    seed: int
    told: list[str] = field(default_factory=list[str])
    is_bad: bool = False
    findings: tuple[Finding, ...] = ()


class _Rerun:
    """A workload that is trained as the run was, without a run folder."""

    def __init__(self, workload: Workload, recipe: Recipe, target: Target, *, is_trial: bool) -> None:
        self._workload, self._seed, self._is_trial = workload, target.run.seed, is_trial
        model = copy.deepcopy(workload.model).train()
        optimizer = workload.optimizer(model.parameters())
        self._rates = Rates(optimizer, workload.schedule)
        self.session: Session = prepare(
            model,
            optimizer,
            recipe,
            clip_norm=workload.clip_norm,
            seed=target.run.seed,
            total_steps=workload.steps,
            monitor=_WATCHED,
        )

    def advance(self, attempt: int) -> tuple[float, str]:
        """Take one step; its loss, and why it was skipped."""
        if self._is_trial:
            torch.manual_seed(step_seed(self._seed, attempt))
        batch = self._workload.batches(attempt)
        self._rates.set(self.session.applied)
        loss = self._workload.loss(self.session.model, batch)
        result = self.session.step(loss)
        return float(loss.detach()), result.reason


def replay(source: WorkloadSource, run: str | Path, asked: Replay | None = None) -> Replayed:
    """Replay a step of a run, watched by the locator.

    The workload is built with the run's seed, and trained from the newest checkpoint before the step (or from the
    start) up to it; steps that the flight recorder holds begin with the random states that it recorded. The step's
    batch is compared with the recorded one, and replaced by it where it differs and the dump holds it. Nothing is
    written; the caller's random states are left as they were.

    Args:
        source: of the workload that was trained.
        run: the run folder.
        asked: which step; by default the one at fault.

    Raises:
        ValueError: the run has no such step, it lies too far, or its recipe or checkpoint cannot be read; the workload
            fails before it.
        OSError: a file that cannot be read.
    """
    asked = asked or Replay()
    contents = read_run(run)
    target = find_target(contents, asked)
    workload = source.build(target.run.seed, asked.device)
    replayed = Replayed(step=target.step, recipe=target.run.recipe, seed=target.run.seed)
    recipe = _recipe(contents, target, replayed)
    before = random_states()
    try:
        with calling(f"replaying step {target.step}", source.file):
            rerun = _Rerun(workload, recipe, target, is_trial=contents.kind == "comparison")
        start = _start(rerun, contents, target, replayed)
        if target.attempt - start > asked.max_steps:
            raise ValueError(
                f"step {target.step} lies {target.attempt - start} steps after {_origin(start)}: allow as many by "
                "--max-steps, or save checkpoints more often"
            )
        _run(rerun, target, start, source, replayed)
    finally:
        load_random_states(before)
    return replayed


def _recipe(contents: RunContents, target: Target, replayed: Replayed) -> Recipe:
    """The run's; of a run that was only watched, which has none: that which leaves a model as it is."""
    name = target.run.recipe
    if name in contents.recipes:
        return contents.recipes[name]
    if contents.kind == "comparison" or (contents.path / "recipe.toml").exists():
        raise ValueError(f"{contents.path}: the recipe '{name}' of the run is not there or cannot be read: put it back")
    replayed.told.append("recipe: the run has none, so the model is replayed as the workload builds it")
    return load_recipe("fp32")


def _start(rerun: _Rerun, contents: RunContents, target: Target, replayed: Replayed) -> int:
    """Load the newest whole checkpoint that is not beyond the step; the attempt that follows it."""
    for found in find_checkpoints(contents.path / "checkpoints"):
        if found.damage or found.manifest is None or found.manifest.step > target.step:
            continue
        names = read_checkpoint(found.path).parts["session"]["extra"]
        rerun.session.resume(found.path, extra={name: _Ignored() for name in names})
        replayed.told.append(f"weights: from {found.path}")
        step = found.manifest.step
        return next((n for n, record in enumerate(target.run.steps) if record.step >= step), len(target.run.steps))
    torch.manual_seed(target.run.seed)
    replayed.told.append("weights: there is no checkpoint before the step, so the run is trained again from its start")
    return 0


def _run(rerun: _Rerun, target: Target, start: int, source: WorkloadSource, replayed: Replayed) -> None:
    state = None if target.folder is None else read_dump_state(target.folder)
    differs: int | None = None
    for attempt in range(start, target.attempt):
        _put(state, target.recorded.get(attempt))
        with calling(f"step {attempt} on the way to step {target.step}", source.file):
            loss, _ = rerun.advance(attempt)
        recorded = target.run.steps[attempt].curve_loss if attempt < len(target.run.steps) else math.nan
        if differs is None and not math.isnan(recorded) and loss != recorded:
            differs = attempt
    if target.attempt > start:
        replayed.told.append(_fidelity(target.attempt - start, differs))
    found = len(rerun.session.findings)
    _put(state, target.recorded.get(target.attempt))
    _step(rerun, target, state, source, replayed)
    replayed.findings = rerun.session.findings[found:]


def _step(rerun: _Rerun, target: Target, state: DumpState | None, source: WorkloadSource, replayed: Replayed) -> None:
    """The step itself; an exception that the run ended by is what is looked for."""
    replayed.told.append(
        "random states: as recorded"
        if state is not None and target.recorded.get(target.attempt) in state.random
        else "random states: the recorder holds none of this step, so they are those of the re-run"
    )
    check = BatchCheck(rerun.session.model, target.entry, () if state is None else state.calls)
    try:
        loss, reason = rerun.advance(target.attempt)
    except Exception as error:
        replayed.told.append(f"the step raises: {describe(error, source.file)}")
        replayed.is_bad = True
    else:
        replayed.told.append(_outcome(loss, reason, target))
        replayed.is_bad = bool(reason) or not math.isfinite(loss)
    finally:
        check.close()
    replayed.told += check.told


def _put(state: DumpState | None, position: int | None) -> None:
    """Draw on as the step did when it was recorded."""
    states: Mapping[str, Any] | None = None if state is None or position is None else state.random.get(position)
    if states is not None:
        load_random_states(states)


def _fidelity(steps: int, differs: int | None) -> str:
    if differs is None:
        return f"{count(steps, 'step')} on the way: every loss equals the recorded one"
    return (
        f"{count(steps, 'step')} on the way: from the run's step {differs} on, losses differ from the recorded ones, "
        "so the weights are not those of the run (other versions, threads, data or draws)"
    )


def _outcome(loss: float, reason: str, target: Target) -> str:
    steps = target.run.steps
    recorded = steps[target.attempt].curve_loss if target.attempt < len(steps) else math.nan
    same = "" if math.isnan(recorded) != math.isnan(loss) or (loss == loss and loss != recorded) else ", as recorded"
    if target.attempt < len(steps) and not same:
        same = f"; recorded was {recorded:.6g}"
    return f"loss: {loss:.6g}{same}" + (f"; {reason}" if reason else "; the step was applied")


def _origin(start: int) -> str:
    return "the newest checkpoint before it" if start else "the start"


class _Ignored:
    """Stands for an object of the user's whose state a checkpoint holds."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict: Any, /) -> None:
        """Nothing is done with it."""
