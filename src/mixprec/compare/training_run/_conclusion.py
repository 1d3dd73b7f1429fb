"""What a training run has come to, read from its folder: the same whether it has just ended or had before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from mixprec.records import (
    SKIPS,
    UNTIMED_STEPS,
    Forward,
    RecipeRecords,
    TargetRow,
    Verdict,
    group_by_recipe,
    read_records,
)
from mixprec.training.checkpoint import find_checkpoints

from .._folder import RECORDS
from ._training import Outcome, Trained

_NO_BASELINE = "one run has no baseline: `mixprec compare` judges it"


def is_done(folder: Path, seed: int) -> bool:
    """Whether the folder's run has been done to its end."""
    own = _own(folder)
    return own is not None and seed in own.ends and own.ends[seed].status == "done"


def is_evaluated(folder: Path, step: int) -> bool:
    """Whether the run was evaluated after so many steps, in both forward passes."""
    own = _own(folder)
    return own is not None and any(at == step and forward == "fp32" for _, at, forward in own.evaluations)


def conclude(folder: Path, outcome: Outcome, *, steps: int, targets: Iterable[TargetRow]) -> Trained:
    """Sum up the folder's run; targets are judged where it is done.

    Args:
        folder: of the run.
        outcome: how it ended.
        steps: that were to be applied.
        targets: what it is judged by.
    """
    own = _own(folder) or RecipeRecords()
    taken = next(iter(own.steps.values()), {})
    last = max((at for _, at, _ in own.evaluations), default=-1)
    metrics: dict[Forward, Mapping[str, float]] = {
        forward: record.metrics for (_, at, forward), record in own.evaluations.items() if at == last
    }
    checkpoints = find_checkpoints(folder / "checkpoints")
    return Trained(
        outcome=outcome,
        applied=sum(record.applied for record in taken.values()),
        skipped=sum(event.name in SKIPS for event in own.events),
        steps=steps,
        metrics=metrics,
        verdicts=_verdicts(own, metrics, targets) if outcome == "done" else (),
        checkpoint=checkpoints[0].path if checkpoints else None,
        incidents=tuple(own.incidents.values()),
    )


def _own(folder: Path) -> RecipeRecords | None:
    if not (folder / RECORDS).exists():
        return None
    _, by_recipe = group_by_recipe(read_records(folder / RECORDS))
    return next(iter(by_recipe.values()), None)


def _verdicts(
    own: RecipeRecords, metrics: Mapping[Forward, Mapping[str, float]], targets: Iterable[TargetRow]
) -> tuple[Verdict, ...]:
    """Quality by what the recipe's forward pass costs with the final weights, time by the median step."""
    rows = next(iter(own.coverage.values())).rows if own.coverage else ()
    emulated = any(row["engine"] == "emulated" for row in rows)
    taken = next(iter(own.steps.values()), {})
    times = [record.seconds for _, record in sorted(taken.items())][UNTIMED_STEPS:]
    return tuple(_judged(row, metrics, times, emulated=emulated) for row in targets)


def _judged(
    row: TargetRow, metrics: Mapping[Forward, Mapping[str, float]], times: Sequence[float], *, emulated: bool
) -> Verdict:
    table, _, name = row["name"].partition(".")
    verdict = Verdict(
        recipe="",
        target=row["name"],
        outcome="not resolved",
        limit=row["limit"],
        unit=row["unit"],
        measured=None,
        interval=None,
        pairs=1,
        reason=_NO_BASELINE,
    )
    if table == "quality":
        low, full = metrics.get("recipe", {}).get(name), metrics.get("fp32", {}).get(name)
        if low is None or full is None:
            return replace(verdict, reason=f"no evaluation told a metric {name!r}")
        gap = (full - low) if row["better"] == "higher" else (low - full)
        limit = row["limit"] * (abs(full) if row["unit"] == "relative" else 1.0)
        return replace(verdict, outcome="met" if gap <= limit else "missed", limit=limit, measured=gap, reason="")
    if row["name"] == "latency.milliseconds" and times:
        if emulated:
            return replace(verdict, reason="its products were emulated here: the time is not that of its formats")
        measured = 1e3 * median(times)
        return replace(verdict, outcome="met" if measured <= row["limit"] else "missed", measured=measured, reason="")
    return verdict
