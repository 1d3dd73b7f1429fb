"""The curves of a comparison as Plotly traces; colours are the page's, which knows light from dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mixprec.records import RecipeRecords, Summary

from ._smoothing import Series, average, difference, smooth, thin, view

Trace = dict[str, Any]

#: Points of a line that are kept; a screen has no more.
POINTS = 600

#: Points of each edge of a band.
BAND_POINTS = 200

#: Runs up to which each has a line of its own; beyond, the band over seeds says it.
FEW_RUNS = 12

#: Kinds of traces, from the bottom of the picture to its top.
KINDS = ("band", "raw", "seed", "mean", "evaluation", "skipped", "incident")

#: How the lines of one recipe's losses look, where it has several; more begin anew.
_DASHES = ("solid", "dash", "dot", "dashdot")

#: Value by step, by seed.
_Curves = Mapping[int, Series]


def loss_chart(summary: Summary, recipes: Mapping[str, RecipeRecords]) -> dict[str, Any]:
    """Training loss of every recipe and seed, raw and smoothed, with evaluations, skipped steps and incidents.

    Where a run has several losses, as a GAN's two, each has a line of its own.
    """
    reach = summary.steps // 30
    few = has_few_runs(recipes)
    traces: list[Trace] = []
    values: dict[str, list[float]] = {}
    for index, (name, own) in enumerate(recipes.items()):
        values[name] = []
        for place, (loss, raw) in enumerate(_losses(own).items()):
            smoothed = {seed: smooth(series, reach) for seed, series in raw.items()}
            values[name] += [value for series in smoothed.values() for value in series.values()]
            lines = _lines(index, name, own, raw, smoothed, few=few)
            traces += [_of_loss(trace, loss, place) for trace in lines] if loss else lines
        traces.append(_evaluations(index, name, _evaluation_losses(own)))
    shown = [value for own in values.values() for value in own]
    return _chart(traces, summary, view(shown, values.get(summary.baseline, [])), zero=False)


def gap_chart(summary: Summary, recipes: Mapping[str, RecipeRecords]) -> dict[str, Any] | None:
    """Training loss minus the baseline's at the same step of the same seed, smoothed; ``None`` without a pair."""
    reach = summary.steps // 15
    baseline = recipes.get(summary.baseline, RecipeRecords())
    few = has_few_runs(recipes)
    traces: list[Trace] = []
    settled: list[float] = []
    values: list[float] = []
    for index, (name, own) in enumerate(recipes.items()):
        if name == summary.baseline:
            continue
        gaps = {seed: smooth(series, reach) for seed, series in _gaps(own, baseline).items()}
        mean = average([gaps[seed] for seed in _averaged(own) if seed in gaps])
        traces += _seeds(index, name, gaps, few=few)
        traces.append(_line(index, name, "mean", mean or next(iter(gaps.values()), {}), "mean"))
        shown = [*gaps.values(), mean]
        values += [value for series in shown for value in series.values()]
        # The first steps differ most and say least; the rest sets the scale.
        settled += [v for series in shown for step, v in series.items() if step >= summary.steps / 5]
    if not values:
        return None
    window = view([*values, 0.0], [*settled, 0.0] if settled else [])
    return _chart(traces, summary, window, zero=True)


def _losses(own: RecipeRecords) -> dict[str, dict[int, dict[int, float]]]:
    """By the loss's name, seed and step; the whole is called nothing, and is left out where there are several."""
    named: dict[str, dict[int, dict[int, float]]] = {}
    for seed, steps in own.steps.items():
        for step, record in steps.items():
            for name, value in record.losses.items():
                named.setdefault(name, {}).setdefault(seed, {})[step] = value
    if len(named) > 1:
        return named
    whole = {seed: {step: one.curve_loss for step, one in steps.items()} for seed, steps in own.steps.items()}
    return {"": whole}


def _lines(index: int, recipe: str, own: RecipeRecords, raw: _Curves, smoothed: _Curves, *, few: bool) -> list[Trace]:
    """One loss of a recipe: its steps, its seeds, their mean, where steps were skipped, and incidents."""
    lines = [_line(index, recipe, f"raw-{seed}", series, "raw") for seed, series in raw.items()] if few else []
    lines += _seeds(index, recipe, smoothed, few=few)
    mean = average([smoothed[seed] for seed in _averaged(own) if seed in smoothed])
    lines.append(_line(index, recipe, "mean", mean or next(iter(smoothed.values()), {}), "mean"))
    return [*lines, _skips(index, recipe, own, raw, smoothed), _incidents(index, recipe, own, smoothed)]


def _of_loss(trace: Trace, loss: str, place: int) -> Trace:
    """A trace of one loss of several."""
    meta = trace["meta"] | {"dash": _DASHES[place % len(_DASHES)]}
    recipe = trace["legendgroup"]
    name = f"{recipe}, {loss}{trace['name'].removeprefix(recipe)}"
    return trace | {"uid": f"{trace['uid']}-{loss}", "name": name, "meta": meta}


def has_few_runs(recipes: Mapping[str, RecipeRecords]) -> bool:
    """Whether each run has a line of its own."""
    return sum(len(own.steps) for own in recipes.values()) <= FEW_RUNS


def _seeds(index: int, recipe: str, series: Mapping[int, Series], *, few: bool) -> list[Trace]:
    """The band from the lowest to the highest of the seeds, and where there are few runs each on its own."""
    if len(series) < 2:
        return []
    lines = [_line(index, recipe, f"seed-{seed}", one, "seed") for seed, one in series.items()] if few else []
    return [_band(index, recipe, list(series.values())), *lines]


def _band(index: int, recipe: str, series: Sequence[Series]) -> Trace:
    """A closed outline: forward along the highest, back along the lowest."""
    edges: dict[int, list[float]] = {}
    for one in series:
        for step, value in one.items():
            edges.setdefault(step, []).append(value)
    # Where a single seed is left (the others ended early), there is no band.
    shared = {step: math.nan for step, found in sorted(edges.items()) if len(found) > 1}
    steps = list(thin(shared, BAND_POINTS))
    high = [_rounded(max(edges[step])) for step in steps]
    low = [_rounded(min(edges[step])) for step in reversed(steps)]
    return _trace(index, recipe, "band", "band", {}) | {
        "mode": "lines",
        "name": f"{recipe}, all seeds",
        "x": [*steps, *reversed(steps)],
        "y": [*high, *low],
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _averaged(own: RecipeRecords) -> list[int]:
    """Seeds that the thick line is the mean of: those that are done, else all that did not end ill."""
    done = [seed for seed in own.steps if seed in own.ends and own.ends[seed].status == "done"]
    ended_ill = {seed for seed, end in own.ends.items() if end.status in ("diverged", "failed")}
    return done or [seed for seed in own.steps if seed not in ended_ill]


def _gaps(own: RecipeRecords, baseline: RecipeRecords) -> dict[int, dict[int, float]]:
    return {
        seed: difference(
            {step: record.curve_loss for step, record in steps.items()},
            {step: record.curve_loss for step, record in baseline.steps[seed].items()},
        )
        for seed, steps in own.steps.items()
        if seed in baseline.steps
    }


def _evaluation_losses(own: RecipeRecords) -> dict[int, list[float]]:
    losses: dict[int, list[float]] = {}
    for (_, step, forward), record in own.evaluations.items():
        if forward == "recipe" and "loss" in record.metrics:
            losses.setdefault(step, []).append(record.metrics["loss"])
    return losses


def _line(index: int, recipe: str, part: str, series: Series, kind: str) -> Trace:
    kept = thin(series, POINTS)
    seed = "" if kind == "mean" else f", seed {part.partition('-')[2]}"
    return _trace(index, recipe, part, kind, kept) | {"mode": "lines", "name": f"{recipe}{seed}"}


def _evaluations(index: int, recipe: str, losses: Mapping[int, Sequence[float]]) -> Trace:
    means = {step: sum(values) / len(values) for step, values in sorted(losses.items())}
    return _trace(index, recipe, "evaluation", "evaluation", means) | {
        "mode": "markers",
        "name": f"{recipe}, evaluation",
    }


def _skips(index: int, recipe: str, own: RecipeRecords, raw: _Curves, smoothed: _Curves) -> Trace:
    skipped = {
        step: smoothed[seed].get(step, math.nan)
        for seed, series in raw.items()
        for step in series
        if not own.steps[seed][step].applied
    }
    return _trace(index, recipe, "skipped", "skipped", skipped) | {
        "mode": "markers",
        "name": f"{recipe}, skipped step",
    }


def _incidents(index: int, recipe: str, own: RecipeRecords, smoothed: _Curves) -> Trace:
    """On the curve that stayed, at the step before which each was seen, or the last before that."""
    marks = [
        (step, series[step], record.number)
        for record in own.incidents.values()
        if (series := smoothed.get(record.seed)) and (step := _last_until(record.step, series)) is not None
    ]
    return _trace(index, recipe, "incident", "incident", {}) | {
        "mode": "markers",
        "name": f"{recipe}, incident",
        "x": [step for step, _, _ in marks],
        "y": [_rounded(value) for _, value, _ in marks],
        "text": [str(number) for _, _, number in marks],
    }


def _last_until(step: int, series: Series) -> int | None:
    return step if step in series else max((at for at in series if at <= step), default=None)


def _trace(index: int, recipe: str, part: str, kind: str, series: Series) -> Trace:
    return {
        "type": "scatter",
        "uid": f"recipe{index}-{part}",
        "legendgroup": recipe,
        "showlegend": kind == "mean",
        "x": list(series),
        "y": [_rounded(value) for value in series.values()],
        "meta": {"series": index, "kind": kind},
    }


def _chart(traces: list[Trace], summary: Summary, window: tuple[float, float] | None, *, zero: bool) -> dict[str, Any]:
    drawn = [trace for trace in traces if trace["x"] or trace["meta"]["kind"] == "mean"]
    # Each kind above the one before, so that no recipe's faint steps lie over another's mean.
    drawn.sort(key=lambda trace: KINDS.index(trace["meta"]["kind"]))
    series = sorted({trace["meta"]["series"] for trace in drawn}, reverse=True)
    for trace in drawn:
        # Losses nearly coincide, gaps are there to tell them apart.
        depth = 0 if zero else series.index(trace["meta"]["series"])
        trace["meta"] |= {"depth": depth, "of": len(series)}
    margin = 0.01 * summary.steps
    return {"traces": drawn, "steps": (-margin, summary.steps + margin), "range": window, "zero": zero}
