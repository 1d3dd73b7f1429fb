"""The table that a comparison ends with."""

from __future__ import annotations

from mixprec.records import (
    Summary,
    Table,
    gaps_table,
    memory_table,
    summary_table,
    times_table,
    verdicts_table,
)

from ._print import print_table

#: Columns of words; the others hold numbers.
_WORDS = ("recipe", "status", "metric", "target", "verdict")
#: Of a recipe; the report has them all.
_METRICS = 4
#: The column whose cells are lists: under the table they have a line each.
_LISTS = "GEMM FLOPs"


def print_summary(summary: Summary) -> None:
    """Print the table of a comparison, what must be read with it, and why runs did not end well."""
    table = summary_table(summary)
    shown = [i for i, name in enumerate(table.headers) if name != _LISTS]
    header = [name if name in _WORDS else f">{name}" for name in (table.headers[i] for i in shown)]
    rows = [[row[i] for i in shown] for row in table.rows]
    seeds = f"{len(summary.seeds)} seed{'' if len(summary.seeds) == 1 else 's'}"
    print_table(header, rows, title=f"{summary.workload}: {summary.steps} steps, {seeds}", turn=True)
    for note in table.notes:
        print(f"- {note}")
    for row in table.rows if _LISTS in table.headers else ():
        print(f"- {_LISTS} of {row[0]}: {row[table.headers.index(_LISTS)]}")
    for title, statistics in (
        ("gaps", gaps_table(summary, most=_METRICS)),
        ("targets", verdicts_table(summary)),
        ("times", times_table(summary)),
    ):
        _print_beneath(title, statistics)
    _print_beneath("memory of a step", memory_table(summary))
    for row in summary.rows:
        for run in row.runs:
            if run.reason and run.status != "done":
                print(f"- {row.recipe}, seed {run.seed}: {run.status}, {run.reason.splitlines()[0]}")


def _print_beneath(title: str, table: Table | None) -> None:
    """A further table, where it has anything to say."""
    if table is None:
        return
    header = [name if name in _WORDS else f">{name}" for name in table.headers]
    print_table(header, table.rows, title=title, turn=True)
    for note in table.notes:
        print(f"- {note}")
