"""All numbers of a report, as JSON's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mixprec.records import ComparisonRecord, Gap, Metric, RecipeSummary, Summary, Timing, judge

from .estimates import HardwareEstimate

#: Version of the file; a field changed in meaning raises it.
SCHEMA = 2


def numbers_of(
    summary: Summary,
    header: ComparisonRecord,
    estimates: tuple[HardwareEstimate, ...],
    words: Mapping[str, Any],
) -> dict[str, Any]:
    """Settings, then what was found of each recipe; ``words`` are the page's sentences."""
    return {
        "schema": SCHEMA,
        "settings": asdict(header),
        **words,
        "recipes": {row.recipe: _row(row) for row in summary.rows},
        "verdicts": [asdict(one) for one in judge(summary)],
        "estimates": [
            asdict(one) | {"ratio": {name: one.ratio(name, summary.baseline) for name in one.recipes}}
            for one in estimates
        ],
    }


def _row(row: RecipeSummary) -> dict[str, Any]:
    told = asdict(row) | {
        "status": row.status,
        "skipped_steps": row.skipped_steps,
        "emulated": row.emulated,
        "timing": None if row.timing is None else _timing(row.timing),
        "to_quality": None if row.to_quality is None else _to_quality(row),
        "smoothed_loss": None if row.smoothed_loss is None else _metric(row.smoothed_loss),
    }
    for kind in ("metrics", "fp32_metrics"):
        metrics: Mapping[str, Metric] = getattr(row, kind)
        told[kind] = {name: _metric(metric) for name, metric in metrics.items()}
    return told


def _timing(timing: Timing) -> dict[str, Any]:
    return asdict(timing) | {"interval": timing.interval, "ratio_interval": timing.ratio_interval}


def _to_quality(row: RecipeSummary) -> dict[str, Any]:
    """Steps that are needed for the loss that the baseline ends at, and the speed-up at equal loss."""
    found = row.to_quality
    if found is None:
        return {}
    told = {"steps_ratio": found.steps_ratio, "reached": found.reached, "speed_up": row.speed_up}
    return asdict(found) | told


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
