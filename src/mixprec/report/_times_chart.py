"""How long steps took, drawn: the middle and the slowest, not a mean."""

from __future__ import annotations

from typing import Any

from mixprec.records import RecipeSummary, Summary, Timing

from ._figures import seconds


def times_chart(summary: Summary) -> dict[str, Any] | None:
    """For each recipe the median step, and a line from the 5th to the 95th percentile where there are enough steps.

    In milliseconds; ``None`` where nothing was timed.
    """
    timed = [
        (index, row, row.timing, row.step_seconds)
        for index, row in enumerate(summary.rows)
        if row.timing is not None and row.step_seconds is not None
    ]
    if not timed:
        return None
    traces = [_trace(index, row, timing, middle) for index, row, timing, middle in timed]
    words = " ".join(
        f"{row.recipe}: median {seconds(middle)}"
        + ("." if timing.p95 is None else f", 95th percentile {seconds(timing.p95)}.")
        for _, row, timing, middle in timed
    )
    return {"traces": traces, "intervals": True, "height": 76 + 30 * len(timed), "unit": "ms", "words": words}


def _trace(index: int, row: RecipeSummary, timing: Timing, middle: float) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "uid": f"time{index}",
        "name": row.recipe,
        "x": [_milliseconds(middle)],
        "y": [row.recipe],
        "meta": {"series": index, "kind": "time"},
    }
    if timing.p5 is not None and timing.p95 is not None:
        # The median over seeds may lie outside what all their steps together span.
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [_milliseconds(max(0.0, timing.p95 - middle))],
            "arrayminus": [_milliseconds(max(0.0, middle - timing.p5))],
        }
    return trace


def _milliseconds(value: float) -> float:
    return float(f"{1e3 * value:.5g}")
