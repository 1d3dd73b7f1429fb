"""How long steps took: the middle and the slowest, not a mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mixprec.records import NOTHING, UNTIMED_STEPS, RecipeRecords, Summary, Table, percentile
from mixprec.records import times as multiple

from ._figures import seconds


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Seconds of a recipe's steps over all seeds, the first three of each left out.

    Attributes:
        early: the 5th percentile.
        median: the 50th.
        late: the 95th.
        slowest: the 99th.
        tokens: of a second, at the median; ``None`` where a step's tokens are not known.
        steps: how many were timed.
    """

    early: float
    median: float
    late: float
    slowest: float
    tokens: float | None
    steps: int


def step_times(recipes: Mapping[str, RecipeRecords]) -> dict[str, StepTimes]:
    """By recipe; those without a timed step are left out."""
    found: dict[str, StepTimes] = {}
    for name, own in recipes.items():
        timed = [
            record
            for steps in own.steps.values()
            for step, record in steps.items()
            if step >= UNTIMED_STEPS and math.isfinite(record.seconds) and record.seconds > 0
        ]
        if not timed:
            continue
        ordered = sorted(record.seconds for record in timed)
        middle = percentile(ordered, 0.5)
        tokens = [record.tokens for record in timed if record.tokens is not None]
        found[name] = StepTimes(
            early=percentile(ordered, 0.05),
            median=middle,
            late=percentile(ordered, 0.95),
            slowest=percentile(ordered, 0.99),
            tokens=sum(tokens) / len(tokens) / middle if tokens else None,
            steps=len(timed),
        )
    return found


def times_table(times: Mapping[str, StepTimes], summary: Summary) -> Table | None:
    """Percentiles and throughput of every recipe; ``None`` where nothing was timed."""
    if not times:
        return None
    ratios = {row.recipe: row.time_ratio for row in summary.rows}
    rows = tuple(
        (
            name,
            seconds(one.median),
            multiple(ratios.get(name)),
            seconds(one.late),
            seconds(one.slowest),
            NOTHING if one.tokens is None else f"{one.tokens:,.0f}",
            f"{one.steps:,}",
        )
        for name, one in times.items()
    )
    headers = ("recipe", "median", f"over {summary.baseline}", "95th percentile", "99th", "tokens a second", "steps")
    return Table(headers=headers, rows=rows)


def times_chart(times: Mapping[str, StepTimes], order: Mapping[str, int]) -> dict[str, Any] | None:
    """A line from the 5th to the 95th percentile with the median on it, in milliseconds, for each recipe."""
    if not times:
        return None
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "uid": f"time{order[name]}",
            "name": name,
            "x": [_milliseconds(one.median)],
            "y": [name],
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [_milliseconds(one.late - one.median)],
                "arrayminus": [_milliseconds(one.median - one.early)],
            },
            "meta": {"series": order[name], "kind": "time"},
        }
        for name, one in times.items()
    ]
    words = " ".join(
        f"{name}: median {seconds(one.median)}, 95th percentile {seconds(one.late)}." for name, one in times.items()
    )
    return {"traces": traces, "intervals": True, "height": 76 + 30 * len(times), "unit": "ms", "words": words}


def _milliseconds(value: float) -> float:
    return float(f"{1e3 * value:.5g}")
