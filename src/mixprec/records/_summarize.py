"""From records to a summary: a pure function."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Literal

from ._event_names import BESIDE
from ._pair_plan import FIRST_LOOK, PairPlan
from ._paired import Gap, Metric
from ._recipe_records import RecipeRecords, group_by_recipe
from ._smoothed_loss import final_losses, time_to_quality
from ._summary import RecipeSummary, RunStatus, SeedRun, Summary
from ._timing import UNTIMED_STEPS, time_steps
from ._types import ComparisonRecord, CoverageRecord, Forward, MemoryRecord, Record, StepRecord

_WITHOUT_RESULT = ("diverged", "failed")


def summarize(records: Iterable[Record]) -> Summary:
    """Summarize a comparison, or whatever part of one was recorded.

    Gaps are paired by seed and taken at the same step; times are medians. Missing measurements give rows with
    ``None`` in them, never an error.

    Args:
        records: in the order in which they were written. Without a ``ComparisonRecord`` (a single training run), the
            first recipe is the baseline.

    Example:
        >>> from mixprec.records import EvaluationRecord, RunEndRecord
        >>> records = [
        ...     EvaluationRecord(recipe=name, seed=seed, step=10, forward="recipe", metrics={"loss": loss + seed})
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.5))
        ...     for seed in (0, 1)
        ... ]
        >>> summary = summarize(records)
        >>> gap = summary.rows[1].loss.gap
        >>> gap.mean, gap.sd, summary.rows[1].time_ratio
        (0.5, 0.0, None)
    """
    header, by_recipe = group_by_recipe(records)
    baseline = by_recipe.get(header.baseline, RecipeRecords())
    plan = None if header.max_pairs is None else PairPlan(max_pairs=header.max_pairs, critical=header.critical)
    rows = tuple(_row(name, own, baseline, header, plan) for name, own in by_recipe.items())
    return Summary(
        workload=header.workload,
        baseline=header.baseline,
        seeds=header.seeds,
        steps=header.steps,
        rows=rows,
        plan=plan,
        better=header.better,
        targets=header.targets,
        afterwards=header.afterwards,
    )


def _row(
    name: str, own: RecipeRecords, baseline: RecipeRecords, header: ComparisonRecord, plan: PairPlan | None
) -> RecipeSummary:
    # Where pairs are added, a recipe whose gaps are resolved is in no later seed.
    planned = header.seeds if plan is None or name == header.baseline else header.seeds[:FIRST_LOOK]
    runs = tuple(_seed_run(seed, own) for seed in own.seeds(planned))
    step = _evaluated_at(own)
    seconds, time_ratio = _times(own, baseline)
    saved, peak = (_largest(own, what) for what in ("saved_activation_bytes", "peak_bytes"))
    shares, engines, uncovered = _coverage(own.coverage.values())
    memory = _fullest(own)
    return RecipeSummary(
        recipe=name,
        runs=runs,
        evaluated_at=step,
        metrics=_metrics(own, baseline, "recipe", step, plan),
        fp32_metrics=_metrics(own, baseline, "fp32", step, plan),
        step_seconds=seconds,
        beside=len(_beside(own)),
        time_ratio=time_ratio,
        timing=time_steps(_alone(own), _alone(baseline)),
        smoothed_loss=_smoothed_loss(own, baseline, header.steps, plan),
        to_quality=time_to_quality(own.steps, baseline.steps, header.steps),
        saved_activation_bytes=saved,
        saved_ratio=_ratio(saved, _largest(baseline, "saved_activation_bytes")),
        peak_bytes=peak,
        peak_ratio=_ratio(peak, _largest(baseline, "peak_bytes")),
        rss_bytes=_largest(own, "rss_bytes"),
        parameters=None if memory is None else memory.parameters,
        bytes_by_kind={} if memory is None else memory.bytes_by_kind or {},
        saved_by_site={} if memory is None else memory.saved_by_site or {},
        flop_shares=shares,
        engines=engines,
        uncovered=uncovered,
    )


def _seed_run(seed: int, own: RecipeRecords) -> SeedRun:
    end = own.ends.get(seed)
    steps = own.steps.get(seed, {})
    status: RunStatus = end.status if end else "unfinished"
    skipped = sum(not record.applied for record in steps.values())
    reason = end.reason if end else ""
    return SeedRun(
        seed=seed,
        status=status,
        reason=reason,
        steps=max(steps, default=-1) + 1,
        skipped=skipped,
        timed=sum(not math.isnan(record.seconds) for record in steps.values()),
    )


def _has_result(own: RecipeRecords, seed: int) -> bool:
    end = own.ends.get(seed)
    return end is None or end.status not in _WITHOUT_RESULT


def _evaluated_at(own: RecipeRecords) -> int | None:
    steps = [step for seed, step, _ in own.evaluations if _has_result(own, seed)]
    return max(steps, default=None)


def _metrics(
    own: RecipeRecords, baseline: RecipeRecords, forward: Forward, step: int | None, plan: PairPlan | None
) -> Mapping[str, Metric]:
    if step is None:
        return {}
    found, reference = _values(own, forward, step), _values(baseline, forward, step)
    return {name: _metric(values, reference.get(name, {}), plan) for name, values in found.items()}


def _metric(values: Mapping[int, float], reference: Mapping[int, float], plan: PairPlan | None) -> Metric:
    # An infinity minus itself is no difference to tell, but it is the same value.
    gaps = {
        seed: 0.0 if value == reference[seed] else value - reference[seed]
        for seed, value in values.items()
        if seed in reference
    }
    return Metric(per_seed=values, gap=Gap(per_seed=gaps, plan=plan))


def _smoothed_loss(own: RecipeRecords, baseline: RecipeRecords, steps: int, plan: PairPlan | None) -> Metric | None:
    found = {seed: loss for seed, loss in final_losses(own.steps, steps).items() if _has_result(own, seed)}
    reference = {
        seed: loss for seed, loss in final_losses(baseline.steps, steps).items() if _has_result(baseline, seed)
    }
    return _metric(found, reference, plan) if found else None


def _values(own: RecipeRecords, forward: Forward, step: int) -> dict[str, dict[int, float]]:
    """Metric name to seed to value."""
    values: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for (seed, at, kind), record in own.evaluations.items():
        if at == step and kind == forward and _has_result(own, seed):
            for name, value in record.metrics.items():
                values[name][seed] = value
    return values


def _times(own: RecipeRecords, baseline: RecipeRecords) -> tuple[float | None, float | None]:
    """Seconds of a step, and their ratio to the baseline's."""
    mine, theirs = _seconds(own), _seconds(baseline)
    if not mine:
        return None, None
    common = mine.keys() & theirs.keys()
    if not common:
        return median(mine.values()), None
    ratio = _ratio(median(mine[seed] for seed in common), median(theirs[seed] for seed in common))
    return median(mine.values()), ratio


def _seconds(own: RecipeRecords) -> dict[int, float]:
    """Median seconds of a step, by seed; of runs that others ran beside, none."""
    beside = _beside(own)
    timed = {
        seed: [r.seconds for step, r in steps.items() if step >= UNTIMED_STEPS and not math.isnan(r.seconds)]
        for seed, steps in own.steps.items()
        if seed not in beside
    }
    return {seed: median(seconds) for seed, seconds in timed.items() if seconds}


def _alone(own: RecipeRecords) -> dict[int, dict[int, StepRecord]]:
    """Steps of the runs that none ran beside, by seed."""
    beside = _beside(own)
    return {seed: steps for seed, steps in own.steps.items() if seed not in beside}


def _beside(own: RecipeRecords) -> set[int]:
    """Seeds whose runs others ran beside."""
    return {event.seed for event in own.events if event.name == BESIDE}


def _largest(own: RecipeRecords, what: Literal["saved_activation_bytes", "peak_bytes", "rss_bytes"]) -> int | None:
    records: Iterable[MemoryRecord] = own.memory.values()
    return max((int(getattr(record, what)) for record in records), default=None)


def _fullest(own: RecipeRecords) -> MemoryRecord | None:
    """The record of the seed that needs most, among those that tell it by kind."""
    told = {sum(record.bytes_by_kind.values()): record for record in own.memory.values() if record.bytes_by_kind}
    return told[max(told)] if told else None


def _ratio(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else value / reference


def _coverage(
    records: Iterable[CoverageRecord],
) -> tuple[dict[str, float], dict[str, float], tuple[str, ...]]:
    """Shares by format and by engine over all seeds, and the names of uncovered GEMMs."""
    formats: defaultdict[str, int] = defaultdict(int)
    engines: defaultdict[str, int] = defaultdict(int)
    uncovered: dict[str, None] = {}
    for record in records:
        uncovered.update(dict.fromkeys(record.uncovered))
        for row in record.rows:
            formats[row["format"]] += row["flops"]
            engines[row["engine"]] += row["flops"]
    return _shares(formats), _shares(engines), tuple(uncovered)


def _shares(flops: Mapping[str, int]) -> dict[str, float]:
    total = sum(flops.values())
    ordered = sorted(flops.items(), key=lambda item: -item[1])
    return {name: n / total for name, n in ordered} if total else {}
