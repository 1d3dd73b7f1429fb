"""Final gaps with their intervals, drawn: a chart for each metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mixprec.records import Gap, RecipeSummary, Summary, difference, worst_metrics

#: Charts of a page; the loss and metrics with targets are always among them, the rest is in the table.
_MOST = 6
_WORSE = {
    "lower": "lower is better: right of zero is worse",
    "higher": "higher is better: left of zero is worse",
    None: "nobody told which values are better",
}


@dataclass(frozen=True, kw_only=True)
class IntervalChart:
    """The gaps of one metric.

    Attributes:
        metric: its name.
        rank: of the metric, the worst first.
        told: which side of zero is worse.
        chart: as it is drawn.
    """

    metric: str
    rank: int
    told: str
    chart: dict[str, Any]

    @property
    def place(self) -> str:
        """What the chart is called on the page."""
        return f"intervals-{self.rank}"


def every_interval_chart(summary: Summary) -> tuple[IntervalChart, ...]:
    """For each metric, the worst first: a dot for each pair, the mean and its interval, a row for each recipe.

    Empty without a pair.
    """
    found: list[IntervalChart] = []
    for rank, name in enumerate(worst_metrics(summary)):
        chart = _chart(summary, name)
        if chart is not None:
            told = _WORSE[summary.direction(name)]
            found.append(IntervalChart(metric=name, rank=rank, told=told, chart=chart))
    return tuple(found)


def is_shown(one: IntervalChart, summary: Summary) -> bool:
    """Whether a chart is on the page of its run."""
    asked = {"loss", *(target["name"].partition(".")[2] for target in summary.targets)}
    return one.rank < _MOST or one.metric in asked


def _chart(summary: Summary, name: str) -> dict[str, Any] | None:
    traces: list[dict[str, Any]] = []
    words: list[str] = []
    for index, row in enumerate(summary.rows):
        gap = _gap(row, name, summary)
        if gap is not None:
            traces += _row(index, row.recipe, gap)
            words.append(_words(row.recipe, gap))
    if not traces:
        return None
    height = 76 + 34 * len(words)
    return {"traces": traces, "intervals": True, "zero": True, "height": height, "unit": "", "words": " ".join(words)}


def _words(recipe: str, gap: Gap) -> str:
    told = f"{recipe}: {difference(gap.mean, gap.sd)}"
    if gap.interval is None:
        return f"{told}."
    low, high = (difference(end, gap.sd) for end in gap.interval)
    return f"{told}, {low} to {high}."


def _gap(row: RecipeSummary, name: str, summary: Summary) -> Gap | None:
    """The gap in a metric, where there is a pair."""
    metric = row.quality.get(name)
    if row.recipe == summary.baseline or metric is None or metric.gap.mean is None:
        return None
    return metric.gap


def _row(index: int, recipe: str, gap: Gap) -> list[dict[str, Any]]:
    pairs = [value for value in gap.per_seed.values() if math.isfinite(value)]
    traces: list[dict[str, Any]] = []
    if pairs:
        traces.append(_marks(index, recipe, pairs, "pair", f"{recipe}, each pair"))
    if gap.mean is not None and math.isfinite(gap.mean):
        mean = _marks(index, recipe, [gap.mean], "interval", recipe)
        if gap.interval is not None:
            low, high = gap.interval
            mean["error_x"] = {
                "type": "data",
                "symmetric": False,
                "array": [_rounded(high - gap.mean)],
                "arrayminus": [_rounded(gap.mean - low)],
            }
        traces.append(mean)
    return traces


def _marks(index: int, recipe: str, values: list[float], kind: str, name: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "uid": f"{kind}{index}",
        "name": name,
        "x": [_rounded(value) for value in values],
        "y": [recipe] * len(values),
        "meta": {"series": index, "kind": kind},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
