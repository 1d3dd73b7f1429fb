"""What a script's logs say, as the records of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixprec.records import EvaluationRecord, StepRecord

from ._metric_source import LOSS, STEP_SECONDS, TRAIN_LOSS
from ._read_rows import LogError, Point, read_points

Told = StepRecord | EvaluationRecord


@dataclass(frozen=True, kw_only=True)
class LogFile:
    """A metric's file of one run: ``name`` is the metric's."""

    name: str
    path: Path
    key: str


@dataclass(frozen=True, kw_only=True)
class Logged:
    """What the logs of a run hold.

    Attributes:
        records: steps, then evaluations.
        steps: how many were taken, as far as the logs tell.
        diverged: where a loss was not finite, in words; empty where none was.
    """

    records: tuple[Told, ...]
    steps: int
    diverged: str


def read_logs(files: Sequence[LogFile], recipe: str, seed: int) -> Logged:
    """Read the metrics of a run.

    Steps may be counted from 0 or from 1: a log without a step 0 counts from 1. Each row of the loss is an evaluation;
    the last one has the last value of every metric. The steps' losses are those of ``train_loss``; without it, the
    loss itself.

    Raises:
        LogError: a metric that cannot be read, is not there, or of which the last value is no number.
    """
    points = {file.name: read_points(file.path, file.key) for file in files}
    seconds = _by_step(points.pop(STEP_SECONDS, []))
    train = points.pop(TRAIN_LOSS, points[LOSS])
    named = {file.name: file.path.name for file in files}
    diverged = [
        f"the {name.replace('_', ' ')} was {point.value} at step {point.step} ({named[name]}, line {point.line})"
        for name, found in ((LOSS, points[LOSS]), (TRAIN_LOSS, train))
        for point in found
        if not math.isfinite(point.value) and name in named
    ]
    steps = [_step(recipe, seed, at, loss, seconds) for at, loss in _by_step(train).items()]
    evaluations = list(_evaluations({name: _by_step(found) for name, found in points.items()}, recipe, seed))
    if not diverged:
        for name, found in points.items():
            if not math.isfinite(found[-1].value):
                raise LogError(
                    f"metric {name} is {found[-1].value} in its last row ({named[name]}, line {found[-1].line}), "
                    "expected a finite number"
                )
    last = max([*(record.step for record in evaluations), *(record.step + 1 for record in steps)])
    return Logged(records=(*steps, *evaluations), steps=last, diverged=diverged[0] if diverged else "")


def _by_step(points: Iterable[Point]) -> dict[int, float]:
    """Values by the number of their step from 0 on; of two of one step, the later."""
    found = list(points)
    first = 0 if any(point.step == 0 for point in found) else 1
    return dict(sorted({point.step - first: point.value for point in found}.items()))


def _step(recipe: str, seed: int, at: int, loss: float, seconds: dict[int, float]) -> StepRecord:
    return StepRecord(
        recipe=recipe,
        seed=seed,
        step=at,
        loss=loss,
        seconds=seconds.get(at, math.nan),
        applied=True,
        grad_norm=None,
        loss_scale=None,
        tokens=None,
    )


def _evaluations(metrics: dict[str, dict[int, float]], recipe: str, seed: int) -> Iterable[EvaluationRecord]:
    last = max(metrics[LOSS])
    final = {name: values[max(values)] for name, values in metrics.items()}
    for at in metrics[LOSS]:
        here = {name: values[at] for name, values in metrics.items() if at in values}
        found = final if at == last else here
        yield EvaluationRecord(recipe=recipe, seed=seed, step=at + 1, forward="recipe", metrics=found)
