"""How much each recipe gets done in a second, over the run: a slow disk or a busy hour shows here, not in a median."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from mixprec.records import UNTIMED_STEPS, RecipeRecords, StepRecord, Summary

#: Parts of a run, each a point: fewer than a screen could show, so that single slow steps do not hide the course.
_PARTS = 60

#: By part of the run.
_Rates = dict[int, float]


def throughput_chart(summary: Summary, recipes: Mapping[str, RecipeRecords]) -> dict[str, Any] | None:
    """Tokens per second over steps (steps per second, where a step without tokens is), the median over seeds.

    The band reaches from the slowest seed to the fastest. Untimed steps and runs that others ran beside are left out;
    ``None`` where nothing is left to draw a line of.
    """
    length = max(1, math.ceil(summary.steps / _PARTS))
    runs = {row.recipe: _timed(recipes[row.recipe], row.timing.per_seed) for row in summary.rows if row.timing}
    has_tokens = all(step.tokens is not None for own in runs.values() for steps in own for step in steps)
    traces: list[dict[str, Any]] = []
    for index, row in enumerate(summary.rows):
        rates = [_rates(steps, length, has_tokens=has_tokens) for steps in runs.get(row.recipe, ())]
        traces += _traces(index, row.recipe, rates, length)
    if not any(len(trace["x"]) > 1 for trace in traces if trace["meta"]["kind"] == "rate"):
        return None
    traces.sort(key=lambda trace: trace["meta"]["kind"])
    most = max(value for trace in traces for value in trace["y"])
    margin = 0.01 * summary.steps
    return {
        "traces": traces,
        "steps": (-margin, summary.steps + margin),
        "range": (0.0, 1.06 * most),
        "zero": False,
        "unit": "tokens" if has_tokens else "steps",
    }


def _timed(own: RecipeRecords, seeds: Iterable[int]) -> list[list[StepRecord]]:
    """The steps of each run that a time is told of."""
    return [
        [one for step, one in own.steps[seed].items() if step >= UNTIMED_STEPS and math.isfinite(one.seconds)]
        for seed in seeds
    ]


def _rates(steps: Sequence[StepRecord], length: int, *, has_tokens: bool) -> _Rates:
    """In each part of a run: all of its tokens or steps over all of its seconds."""
    parts: dict[int, list[StepRecord]] = {}
    for one in steps:
        parts.setdefault(one.step // length, []).append(one)
    found: _Rates = {}
    for part, own in parts.items():
        seconds = math.fsum(one.seconds for one in own)
        if seconds > 0:
            found[part] = sum((one.tokens or 0) if has_tokens else 1 for one in own) / seconds
    return found


def _traces(index: int, recipe: str, rates: Sequence[_Rates], length: int) -> list[dict[str, Any]]:
    places = sorted({part for own in rates for part in own})
    values = [[own[part] for own in rates if part in own] for part in places]
    steps = [part * length + (length - 1) / 2 for part in places]
    line = _trace(index, recipe, "rate", steps, [median(each) for each in values])
    shared = [i for i, each in enumerate(values) if len(each) > 1]
    if not shared:
        return [line] if steps else []
    around = [*shared, *reversed(shared)]
    edges = [*(max(values[i]) for i in shared), *(min(values[i]) for i in reversed(shared))]
    return [_trace(index, recipe, "band", [steps[i] for i in around], edges), line]


def _trace(index: int, recipe: str, kind: str, x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "uid": f"recipe{index}-{kind}",
        "name": recipe if kind == "rate" else f"{recipe}, all seeds",
        "legendgroup": recipe,
        "showlegend": kind == "rate",
        "x": list(x),
        "y": [float(f"{value:.5g}") for value in y],
        "meta": {"series": index, "kind": kind},
    }
