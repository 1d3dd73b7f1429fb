"""Figures and tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Columns of every figure; ``low`` and ``high`` are the ends of an interval.
COLUMNS = ("series", "kind", "x", "y", "low", "high")


def chart_csv(chart: Mapping[str, Any]) -> str:
    r"""The points of a figure, one a row, as they are drawn (curves are smoothed and thinned; the records are not).

    Example:
        >>> trace = {"name": "bf16", "x": [0, 1], "y": [2.5, None], "meta": {"kind": "mean"}}
        >>> chart_csv({"traces": [trace]})
        'series,kind,x,y,low,high\nbf16,mean,0,2.5,,\nbf16,mean,1,,,\n'
    """
    return table_csv(COLUMNS, (row for trace in chart["traces"] for row in _rows(trace)))


def table_csv(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Rows under their headers.

    Example:
        >>> table_csv(("a", "b"), [(1, 'x "y", z')])
        'a,b\n1,"x ""y"", z"\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(rows)
    return text.getvalue()


def _rows(trace: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    reach = trace.get("error_x")
    for i, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        ends = (x - reach["arrayminus"][i], x + reach["array"][i]) if reach else ("", "")
        yield (trace["name"], trace["meta"]["kind"], x, y, *ends)
