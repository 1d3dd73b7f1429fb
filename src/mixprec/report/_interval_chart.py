"""Final gaps with their intervals, drawn and told."""

from __future__ import annotations

import math
from typing import Any

from mixprec.records import NOTHING, Gap, RecipeSummary, Summary, Table

from ._figures import two_digits

_HEADERS = ("recipe", "interval", "bootstrap", "pairs", "found in 4 of 5", "verdict")
_NOTES = (
    "interval: of the mean of the paired differences, Student's t; it decides",
    "bootstrap: 95 %, assumes no distribution, to be read beside it",
    "found in 4 of 5: the smallest true gap that as many pairs find in four of five comparisons",
)


def interval_chart(summary: Summary) -> tuple[dict[str, Any], Table] | None:
    """Each recipe's final gap in loss: a dot for each pair, the mean and its interval; and the same in words.

    ``None`` without a pair.
    """
    traces: list[dict[str, Any]] = []
    for index, row in enumerate(summary.rows):
        gap = _gap(row, summary)
        if gap is not None:
            traces += _row(index, row.recipe, gap)
    if not traces:
        return None
    cells = _cells(summary)
    words = " ".join(f"{name}: {mean}, {span}." for name, mean, span, *_ in cells)
    height = 76 + 34 * len(cells)
    chart = {"traces": traces, "intervals": True, "zero": True, "height": height, "unit": "", "words": words}
    return chart, Table(headers=(*_HEADERS[:1], f"gap to {summary.baseline}", *_HEADERS[1:]), rows=cells, notes=_NOTES)


def _cells(summary: Summary) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    for row in summary.rows:
        gap = _gap(row, summary)
        if gap is None or gap.mean is None:
            continue
        resolvable = gap.resolvable()
        found.append(
            (
                row.recipe,
                signed(gap.mean),
                _span(gap.interval, gap.confidence),
                _span(gap.bootstrap, None),
                str(gap.seeds),
                NOTHING if resolvable is None else two_digits(resolvable),
                "identical" if gap.identical else "resolved" if gap.resolved else "not resolved",
            )
        )
    return tuple(found)


def _span(interval: tuple[float, float] | None, confidence: float | None) -> str:
    if interval is None:
        return NOTHING
    told = f"{signed(interval[0])} to {signed(interval[1])}"
    return told if confidence is None else f"{told} ({100 * confidence:g} %)"


def signed(value: float) -> str:
    """A difference, to three digits.

    Example:
        >>> signed(0.01234), signed(-0.5), signed(0.0), signed(float("inf"))
        ('+0.0123', '−0.5', '0', '+inf')
    """
    return f"{value:+.3g}".replace("-", "−") if value else "0"


def _gap(row: RecipeSummary, summary: Summary) -> Gap | None:
    """The gap in loss, where there is a pair of finite ones."""
    if row.recipe == summary.baseline or row.loss is None or row.loss.gap.mean is None:
        return None
    return row.loss.gap


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
