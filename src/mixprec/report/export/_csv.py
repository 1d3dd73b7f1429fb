"""Figures as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mixprec.records import Table, table_csv

#: Columns of every figure; ``low`` and ``high`` are the ends of an interval.
COLUMNS = ("series", "kind", "x", "y", "low", "high")


def chart_csv(chart: Mapping[str, Any]) -> str:
    r"""The points of a figure, one a row, as they are drawn (curves are smoothed and thinned; the records are not).

    Example:
        >>> trace = {"name": "bf16", "x": [0, 1], "y": [2.5, None], "meta": {"kind": "mean"}}
        >>> chart_csv({"traces": [trace]})
        'series,kind,x,y,low,high\nbf16,mean,0,2.5,,\nbf16,mean,1,,,\n'
    """
    rows = (row for trace in chart["traces"] for row in _rows(trace))
    return table_csv(Table(headers=COLUMNS, rows=tuple(tuple(map(_cell, row)) for row in rows)))


def _rows(trace: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    reach = trace.get("error_x")
    for i, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        ends = (x - reach["arrayminus"][i], x + reach["array"][i]) if reach else ("", "")
        yield (trace["name"], trace["meta"]["kind"], x, y, *ends)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
