"""Which step of a run is to be replayed, and what the flight recorder kept of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mixprec.monitor.doctor import OneRun, RunContents
from mixprec.records import RecordedStep, RecorderDump, StepRecord

_OF_FAULTS = ("non-finite", "exception")


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What is to be replayed.

    Attributes:
        step: applied steps before it; ``None``: that of the recorder's last dump of a fault, else the first that was
            skipped or whose loss was not finite.
        recipe: whose run; ``None``: the first that has such a step.
        seed: likewise.
        device: where.
        max_steps: that may be run to come to it.
    """

    step: int | None = None
    recipe: str | None = None
    seed: int | None = None
    device: str = "cpu"
    max_steps: int = 1000


@dataclass(frozen=True, kw_only=True)
class Target:
    """A step of a run.

    Attributes:
        run: that it belongs to.
        attempt: which of the run's steps it is, skipped ones counted.
        step: applied steps before it.
        folder: of a dump that holds it; ``None`` without one.
        recorded: what the dump holds of the attempts up to it, by their numbers: the positions in its ``steps``.
        entry: what the dump holds of the step itself.
    """

    run: OneRun
    attempt: int
    step: int
    folder: Path | None = None
    recorded: Mapping[int, int] = field(default_factory=dict[int, int])
    entry: RecordedStep | None = None


def find_target(contents: RunContents, asked: Replay) -> Target:
    """The step to replay.

    Raises:
        ValueError: the run has no such step, or none that is worth a replay.
    """
    runs = [
        run
        for run in contents.runs
        if asked.recipe in (None, run.recipe) and asked.seed in (None, run.seed) and (run.steps or contents.dumps)
    ]
    if not runs:
        known = ", ".join(f"{run.recipe} with seed {run.seed}" for run in contents.runs)
        wanted = " and ".join(
            f"{name} {value}" for name, value in (("recipe", asked.recipe), ("seed", asked.seed)) if value is not None
        )
        raise ValueError(f"{contents.path} holds no run of {wanted}: it holds {known}")
    for run in runs:
        target = _in_dumps(run, contents.dumps, asked.step) or _in_records(run, asked.step)
        if target is not None:
            return target
    if asked.step is not None:
        last = max((record.step for run in runs for record in run.steps), default=0)
        raise ValueError(f"{contents.path} holds no step {asked.step}: its steps are 0 to {last}")
    raise ValueError(f"{contents.path}: every step was applied, and its loss was finite: say which to replay, --step N")


def _in_dumps(run: OneRun, dumps: Mapping[Path, RecorderDump], step: int | None) -> Target | None:
    own = [(path, dump) for path, dump in dumps.items() if (dump.recipe, dump.seed) == (run.recipe, run.seed)]
    if step is None:
        own = [(path, dump) for path, dump in own if dump.reason in _OF_FAULTS and not dump.is_ordinary]
    for path, dump in reversed(own):
        numbers = _numbers(dump.steps, run.steps)
        fitting = [i for i, entry in enumerate(dump.steps) if i in numbers and step in (None, entry.step)]
        if fitting:
            last = fitting[-1]
            return Target(
                run=run,
                attempt=numbers[last],
                step=dump.steps[last].step,
                folder=path,
                recorded={numbers[i]: i for i in numbers if i <= last},
                entry=dump.steps[last],
            )
    return None


def _numbers(entries: Sequence[RecordedStep], steps: Sequence[StepRecord]) -> dict[int, int]:
    """Which attempt each entry of a dump is; windows that were dropped are none."""
    positions = [i for i, entry in enumerate(entries) if entry.outcome != "dropped"]
    applied = {record.step: n for n, record in enumerate(steps) if record.applied}
    anchor = next((p for p, i in enumerate(positions) if entries[i].outcome == "applied"), None)
    if anchor is not None and entries[positions[anchor]].step in applied:
        first = applied[entries[positions[anchor]].step] - anchor
    elif positions:  # skipped or unfinished ones alone
        wanted = entries[positions[0]].step
        first = next((n for n, record in enumerate(steps) if record.step == wanted), len(steps))
    else:
        return {}
    return {i: first + p for p, i in enumerate(positions) if first + p >= 0}


def _in_records(run: OneRun, step: int | None) -> Target | None:
    for attempt, record in enumerate(run.steps):
        is_bad = not record.applied or (record.loss is not None and not math.isfinite(record.loss))
        if (step is None and is_bad) or record.step == step:
            return Target(run=run, attempt=attempt, step=record.step)
    return None
