"""Figures of two runs on common axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Chart = dict[str, Any]

#: Figures whose rows stand under one another; of the others each run has one, with the same axes.
ROWS = ("times", "memory")
SIDES = ("loss", "gap", "throughput")


def joined_charts(
    charts: Sequence[Mapping[str, Chart | None]], names: tuple[str, str], order: Mapping[str, int]
) -> dict[str, Chart | None]:
    """Figures by name: one of both runs for each of ``ROWS``, and ``loss-0``, ``loss-1``, ... for each of ``SIDES``.

    It is ``None`` where a run has none; of ``ROWS``, where neither has it.

    Args:
        charts: of the first run's page and of the second's.
        names: of the runs, which are told from one another by them.
        order: the place of each recipe's colour, in both runs the same.
    """
    found = {name: joined_chart([one.get(name) for one in charts], names, order) for name in ROWS}
    for name in SIDES:
        found |= {
            f"{name}-{place}": chart for place, chart in enumerate(_beside([one.get(name) for one in charts], order))
        }
    return found


def _beside(charts: Sequence[Chart | None], order: Mapping[str, int]) -> list[Chart | None]:
    """Charts with the same axes; none at all where their units differ."""
    both = [chart for chart in charts if chart is not None]
    if len({chart.get("unit") for chart in both}) > 1:
        return [None] * len(charts)
    common = {"steps": _union([one["steps"] for one in both]), "range": _union([one["range"] for one in both])}
    return [
        None if chart is None else {**chart, **common, "traces": [_colored(trace, order) for trace in chart["traces"]]}
        for chart in charts
    ]


def joined_chart(charts: Sequence[Chart | None], names: tuple[str, str], order: Mapping[str, int]) -> Chart | None:
    """One figure of both runs, whose rows stand under one another; ``None`` where neither run has it."""
    pieces = [
        (_renamed(chart, run, order, place), chart)
        for place, (run, chart) in enumerate(zip(names, charts, strict=True))
        if chart is not None
    ]
    return _joined(pieces, [f"{recipe} · {run}" for recipe in order for run in names]) if pieces else None


def _joined(pieces: Sequence[tuple[list[Chart], Chart]], places: Sequence[str]) -> Chart:
    first = pieces[0][1]
    has_bars = bool(first.get("bars"))
    traces = _stacked([trace for own, _ in pieces for trace in own], places) if has_bars else _paired(pieces)
    rows = len({row for trace in traces for row in trace["y"]})
    words = " ".join(chart["words"] for _, chart in pieces)
    return {**first, "traces": traces, "height": 84 + 34 * rows, "words": words}


def _paired(pieces: Sequence[tuple[list[Chart], Chart]]) -> list[Chart]:
    """Rows of one recipe next to one another, in the order of the recipes."""
    traces = [trace for own, _ in pieces for trace in own]
    return sorted(traces, key=lambda trace: trace["meta"]["series"])


def _stacked(traces: Sequence[Chart], places: Sequence[str]) -> list[Chart]:
    """Pieces of one kind of memory in one trace, so that the legend has it once; rows in the order of ``places``."""
    kinds: dict[int, list[Chart]] = {}
    for trace in traces:
        kinds.setdefault(trace["meta"]["series"], []).append(trace)
    found: list[Chart] = []
    for _, alike in sorted(kinds.items()):
        bars = [bar for one in alike for bar in zip(one["y"], one["x"], one["customdata"], strict=True)]
        rows, lengths, told = zip(*sorted(bars, key=lambda bar: places.index(bar[0])), strict=True)
        found.append({**alike[0], "y": list(rows), "x": list(lengths), "customdata": list(told)})
    return found


def _renamed(chart: Chart, run: str, order: Mapping[str, int], place: int) -> list[Chart]:
    """Traces whose rows tell the run."""
    return [
        _colored(trace, order) | {"uid": f"{trace['uid']}-{place}", "y": [f"{recipe} · {run}" for recipe in trace["y"]]}
        for trace in chart["traces"]
    ]


def _colored(trace: Chart, order: Mapping[str, int]) -> Chart:
    recipe = trace.get("legendgroup") or trace["y"][0]
    if trace["meta"]["kind"] == "memory":
        return dict(trace)
    return {**trace, "meta": {**trace["meta"], "series": order[recipe]}}


def _union(ranges: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    told = [one for one in ranges if one is not None]
    return (min(low for low, _ in told), max(high for _, high in told)) if told else None
