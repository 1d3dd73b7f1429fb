"""Memory by kind as stacked bars, and the same in words."""

from __future__ import annotations

from typing import Any

from mixprec.records import MEMORY_KINDS, RecipeSummary, Summary, grouped, per_parameter, size


def memory_chart(summary: Summary) -> dict[str, Any] | None:
    """A stacked bar of bytes by kind for each recipe that was measured; ``None`` where none was."""
    measured = {row.recipe: (row, grouped(row.bytes_by_kind)) for row in summary.rows if row.bytes_by_kind}
    if not measured:
        return None
    shown = [kind for kind in MEMORY_KINDS if any(kinds[kind] for _, kinds in measured.values())]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "uid": f"memory{MEMORY_KINDS.index(kind)}",
            "name": kind,
            "x": [kinds[kind] for _, kinds in measured.values()],
            "y": list(measured),
            "customdata": [_words(kinds[kind], row) for row, kinds in measured.values()],
            "meta": {"series": MEMORY_KINDS.index(kind), "kind": "memory"},
        }
        for kind in shown
    ]
    return {"traces": traces, "bars": True, "count": len(measured), "words": " ".join(_sentences(summary))}


def _sentences(summary: Summary) -> list[str]:
    """For a reader who does not see the bars."""
    return [
        f"{row.recipe}: {size(sum(row.bytes_by_kind.values()))}, "
        + ", ".join(f"{kind} {_words(n, row)}" for kind, n in grouped(row.bytes_by_kind).items() if n)
        + "."
        for row in summary.rows
        if row.bytes_by_kind
    ]


def _words(n: int, row: RecipeSummary) -> str:
    share = per_parameter(n, row.parameters)
    return size(n) + (f" ({share} per parameter)" if share else "")
