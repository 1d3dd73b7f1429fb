"""What a comparison's recipes are to the targets that they were to keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from ._paired import Gap, Metric
from ._summary import RecipeSummary, Summary
from ._types import TargetRow
from ._verdict import TargetOutcome, Verdict, outcome_of
from ._wording import count

_Judge = Callable[[RecipeSummary, TargetRow, Summary], Verdict]

#: The worst first.
_ORDER: Mapping[TargetOutcome, int] = {"missed": 0, "not resolved": 1, "met": 2}


def judge(summary: Summary) -> tuple[Verdict, ...]:
    """Every recipe but the baseline against every target, each recipe's worst first.

    Quality and time are judged by their intervals; memory, which is the same at every seed, by its figure. Time that
    was emulated, and cost, which no run here tells, are not resolved.

    Example:
        >>> from mixprec.records import ComparisonRecord, EvaluationRecord, TargetRow, summarize
        >>> target = TargetRow(name="quality.loss", limit=0.05, unit="absolute", better="lower")
        >>> header = ComparisonRecord(
        ...     workload="w", recipes=("fp32", "bf16"), baseline="fp32", seeds=(0, 1, 2), steps=9, machine={},
        ...     versions={}, data={}, targets=(target,),
        ... )
        >>> losses = (
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + 0.1 * seed})
        ...     for seed in (0, 1, 2)
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.002 + 0.01 * (seed - 1)))
        ... )
        >>> [(verdict.recipe, verdict.target, verdict.outcome) for verdict in judge(summarize([header, *losses]))]
        [('bf16', 'quality.loss', 'met')]
    """
    return tuple(verdict for row in summary.rows for verdict in judge_recipe(row, summary))


def judge_recipe(row: RecipeSummary, summary: Summary) -> list[Verdict]:
    """One recipe against every target, the worst first; of the baseline nothing."""
    if row.recipe == summary.baseline:
        return []
    own = [
        _despite_failures(_JUDGES[target["name"].partition(".")[0]](row, target, summary), row)
        for target in summary.targets
    ]
    return sorted(own, key=lambda verdict: (_ORDER[verdict.outcome], _margin(verdict)))


def is_gap_resolved(row: RecipeSummary, metric: str, summary: Summary) -> bool:
    """Whether a recipe's gap in a metric is resolved: against the metric's target, or without one against 0.

    Against a target it is where the whole interval keeps the limit, or none of it does.
    """
    for target in summary.targets:
        if target["name"] == f"quality.{metric}" and metric in row.quality:
            limit = _limit(target, _reference(metric, summary))
            return outcome_of(_toward_worse(row.quality[metric].gap, target), limit) != "not resolved"
    return metric in row.quality and row.quality[metric].gap.resolved


def _toward_worse(gap: Gap, target: TargetRow) -> tuple[float, float] | None:
    """A gap's interval in the direction that is worse."""
    interval = (0.0, 0.0) if gap.identical else gap.interval
    if interval is not None and target["better"] == "higher":
        return -interval[1], -interval[0]
    return interval


def _reference(metric: str, summary: Summary) -> Metric | None:
    baseline = summary.row(summary.baseline)
    return None if baseline is None else baseline.quality.get(metric)


def has_no_baseline(summary: Summary) -> bool:
    """Whether all of the baseline's runs failed or diverged, so that no gap can be told.

    Example:
        >>> from mixprec.records import RunEndRecord, summarize
        >>> has_no_baseline(summarize([RunEndRecord(recipe="fp32", seed=0, status="failed", reason="boom")]))
        True
    """
    baseline = summary.row(summary.baseline)
    runs = () if baseline is None else baseline.runs
    return bool(runs) and all(run.status in ("failed", "diverged") for run in runs)


def _despite_failures(verdict: Verdict, row: RecipeSummary) -> Verdict:
    """What is met is so by the runs that ended: those that failed are told beside it."""
    failed = sum(run.status == "failed" for run in row.runs)
    if verdict.outcome != "met" or not failed:
        return verdict
    return replace(verdict, reason=f"met by the others, it failed in {failed} of {count(len(row.runs), 'seed')}")


def worst_first(row: RecipeSummary, summary: Summary) -> tuple[str, ...]:
    """The names of a recipe's metrics: those that miss a target first, then by how surely they are worse.

    A metric whose better direction nobody told counts by how surely it differs.
    """
    outcomes = {verdict.target: _ORDER[verdict.outcome] for verdict in judge_recipe(row, summary)}
    untold = len(_ORDER)
    return tuple(
        sorted(
            row.quality,
            key=lambda name: (
                outcomes.get(f"quality.{name}", untold),
                -_sureness(row.quality[name].gap, summary.direction(name)),
            ),
        )
    )


def worst_metrics(summary: Summary) -> tuple[str, ...]:
    """The names of all metrics, by the worst place that any recipe gives them."""
    names = dict.fromkeys(name for row in summary.rows for name in row.quality)
    places = [worst_first(row, summary) for row in summary.rows if row.recipe != summary.baseline]
    return tuple(sorted(names, key=lambda name: min((own.index(name) for own in places if name in own), default=0)))


def _margin(verdict: Verdict) -> float:
    """How much room there is to the limit, over the limit; less is worse."""
    if verdict.measured is None or not math.isfinite(verdict.measured):
        return -math.inf
    return (verdict.limit - verdict.measured) / (verdict.limit or 1.0)


def _sureness(gap: Gap, better: str | None) -> float:
    """Standard errors by which a gap is worse than none."""
    if gap.mean is None or gap.identical:
        return 0.0
    if not math.isfinite(gap.mean):
        return math.inf
    worse = abs(gap.mean) if better is None else -gap.mean if better == "higher" else gap.mean
    return worse * math.sqrt(gap.seeds) / gap.sd if gap.sd else math.copysign(math.inf, worse) if gap.seeds > 1 else 0.0


def _quality(row: RecipeSummary, target: TargetRow, summary: Summary) -> Verdict:
    name = target["name"].partition(".")[2]
    metric = row.quality.get(name)
    diverged = [run.seed for run in row.runs if run.status == "diverged"]
    gap = Gap() if metric is None else metric.gap
    sign = -1.0 if target["better"] == "higher" else 1.0
    interval, limit = _toward_worse(gap, target), _limit(target, _reference(name, summary))
    outcome, reason = outcome_of(interval, limit), ""
    if diverged or any(not math.isfinite(value) for value in gap.per_seed.values()):
        outcome, interval = "missed", None
        reason = f"it diverged under seed {diverged[0]}" if diverged else "a gap is not finite"
    elif metric is None:
        reason = f"no run told a metric {name!r}"
    elif outcome == "not resolved":
        reason = _lacking(gap, limit)
    return Verdict(
        recipe=row.recipe,
        target=target["name"],
        outcome=outcome,
        limit=limit,
        unit=target["unit"],
        measured=None if gap.mean is None else sign * gap.mean,
        interval=interval,
        pairs=gap.seeds,
        reason=reason,
    )


def _limit(target: TargetRow, reference: Metric | None) -> float:
    if target["unit"] == "absolute":
        return target["limit"]
    value = None if reference is None else reference.mean
    return math.nan if value is None else target["limit"] * abs(value)


def _lacking(gap: Gap, limit: float) -> str:
    """What would resolve it."""
    if gap.interval is None:
        return f"{gap.seeds} pairs tell no interval"
    needed = gap.pairs_needed(limit) if limit > 0 and math.isfinite(limit) else None
    return "" if needed is None or needed <= gap.seeds else f"about {needed} pairs would resolve a gap of {limit:.3g}"


def _latency(row: RecipeSummary, target: TargetRow, summary: Summary) -> Verdict:
    timing, is_ratio = row.timing, target["unit"] == "ratio"
    value, interval, reason = None, None, ""
    if timing is not None and is_ratio:
        value, interval = row.time_ratio, timing.ratio_interval
    elif timing is not None:
        value, interval = _milliseconds(row.step_seconds), timing.interval
        interval = None if interval is None else (1e3 * interval[0], 1e3 * interval[1])
    outcome = outcome_of(interval, target["limit"])
    if row.emulated:
        outcome, reason = "not resolved", "its products were emulated here: the time is not that of its formats"
    elif interval is None:
        reason = _untimed(row, summary) if value is None else "one seed tells no interval of its time"
    return _figure(row, target, outcome, value, interval=interval, reason=reason)


def _untimed(row: RecipeSummary, summary: Summary) -> str:
    """Why there is no time, or no ratio of two."""
    if row.step_seconds is None:
        return "no step was timed"
    reference = summary.row(summary.baseline)
    if reference is None or reference.step_seconds is None:
        return f"{summary.baseline} has no step time to compare with"
    return f"no seed has a step time of both it and {summary.baseline}"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _memory(row: RecipeSummary, target: TargetRow, summary: Summary) -> Verdict:
    value = row.peak_ratio if target["unit"] == "share" else row.peak_bytes
    if value is None:
        return _figure(row, target, "not resolved", None, reason="no peak of memory was measured")
    return _figure(row, target, "met" if value <= target["limit"] else "missed", value)


def _cost(row: RecipeSummary, target: TargetRow, summary: Summary) -> Verdict:
    return _figure(row, target, "not resolved", None, reason="a run here has no price: `mixprec estimate` tells one")


def _figure(
    row: RecipeSummary,
    target: TargetRow,
    outcome: TargetOutcome,
    value: float | None,
    *,
    interval: tuple[float, float] | None = None,
    reason: str = "",
) -> Verdict:
    return Verdict(
        recipe=row.recipe,
        target=target["name"],
        outcome=outcome,
        limit=target["limit"],
        unit=target["unit"],
        measured=value,
        interval=interval,
        pairs=len(row.runs),
        reason=reason,
    )


_JUDGES: Mapping[str, _Judge] = {"quality": _quality, "latency": _latency, "memory": _memory, "cost": _cost}
