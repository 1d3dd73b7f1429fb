"""All numbers of a report, as JSON's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mixprec.records import ComparisonRecord, Gap, Metric, RecipeSummary, Summary

from ._step_times import StepTimes
from .estimates import HardwareEstimate

#: Version of the file; a field changed in meaning raises it.
SCHEMA = 1


def numbers_of(
    summary: Summary,
    header: ComparisonRecord,
    times: Mapping[str, StepTimes],
    estimates: tuple[HardwareEstimate, ...],
    words: Mapping[str, Any],
) -> dict[str, Any]:
    """Settings, then what was found of each recipe; ``words`` are the page's sentences."""
    return {
        "schema": SCHEMA,
        "settings": asdict(header),
        **words,
        "recipes": {row.recipe: _row(row, times.get(row.recipe)) for row in summary.rows},
        "estimates": [
            asdict(one) | {"ratio": {name: one.ratio(name, summary.baseline) for name in one.recipes}}
            for one in estimates
        ],
    }


def _row(row: RecipeSummary, times: StepTimes | None) -> dict[str, Any]:
    told = asdict(row) | {
        "status": row.status,
        "skipped_steps": row.skipped_steps,
        "emulated": row.emulated,
        "step_times": None if times is None else asdict(times),
    }
    for kind in ("metrics", "fp32_metrics"):
        metrics: Mapping[str, Metric] = getattr(row, kind)
        told[kind] = {name: _metric(metric) for name, metric in metrics.items()}
    return told


def _metric(metric: Metric) -> dict[str, Any]:
    return {"mean": metric.mean, "per_seed": dict(metric.per_seed), "gap": _gap(metric.gap)}


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "per_seed": dict(gap.per_seed),
        "pairs": gap.seeds,
        "mean": gap.mean,
        "sd": gap.sd,
        "interval": gap.interval,
        "confidence": gap.confidence,
        "bootstrap": gap.bootstrap,
        "resolvable": gap.resolvable(),
        "resolved": gap.resolved,
        "identical": gap.identical,
    }
