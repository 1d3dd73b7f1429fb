"""``mixprec table``: what a comparison found, as text for a paper or a spreadsheet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from ._output_file import STDOUT, OutputFile


def command(run: Path, /, *, format: Literal["markdown", "csv", "latex"] = "markdown", out: Path = STDOUT) -> int:
    """Print what a comparison found, each gap with its 95 % interval.

    Markdown and LaTeX have a row for each recipe, in words; CSV one for each recipe and figure, in digits that lose
    nothing. Works on what is there, also for a run that was interrupted; a damaged
    line is left out, and told on standard error.

    For example: `mixprec table runs/a --format latex --out table.tex`

    Args:
        run: the folder, with its `records.jsonl`.
        format: `markdown`, `csv` or `latex` (for the package booktabs; every text is escaped).
        out: a file to write, `-` for standard output.
    """
    from mixprec.records import (
        figures_table,
        result_table,
        salvage_records,
        summarize,
        table_csv,
        table_latex,
        table_markdown,
    )

    if not (run / "records.jsonl").is_file():
        raise ValueError(f"{run} holds no records.jsonl: expected the folder of an earlier `mixprec compare`")
    salvaged = salvage_records(run / "records.jsonl")
    if not salvaged.records:
        if salvaged.left_out:
            raise ValueError(f"{salvaged.left_out[0].reason}; no line of it can be read")
        raise ValueError(f"{run / 'records.jsonl'} holds no complete record: nothing was measured yet")
    make, write = {
        "markdown": (result_table, table_markdown),
        "csv": (figures_table, table_csv),
        "latex": (result_table, table_latex),
    }[format]
    with OutputFile(out) as output:
        output.write(write(make(summarize(salvaged.records))))
    for line in salvaged.left_out:
        print(f"left out: {line.reason}", file=sys.stderr)  # standard output is the table's
    return 0
