"""Running a comparison on the terminal: progress, table, report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Literal

from mixprec.compare import BlackBox, Comparison, compare, compare_commands
from mixprec.records import exit_status, judge, read_records, summarize
from mixprec.report import write_report

from ._progress import Progress
from ._summary_table import print_summary

FAILED, INTERRUPTED = 1, 130


def run_and_show(
    comparison: Comparison | BlackBox, folder: Path, *, resume: bool, again: str, jobs: int | Literal["auto"] = 1
) -> int:
    """Run, then print the table and the path of the report; the same after Ctrl-C, with how to go on.

    Args:
        comparison: what to run.
        folder: the run folder.
        resume: whether the folder holds an earlier run to go on with.
        again: the command that goes on, up to the folder's name.
        jobs: runs at once.

    Returns:
        The exit status: 0, 1 where a run failed or a target was missed, 3 where one is not resolved, 130 after Ctrl-C.
    """
    interrupted = False
    with Progress() as progress:
        try:
            if isinstance(comparison, BlackBox):
                compare_commands(comparison, folder, jobs=jobs, resume=resume, on_record=progress.show)
            else:
                compare(comparison, folder, jobs=jobs, resume=resume, on_record=progress.show)
        except KeyboardInterrupt:
            if not progress.started:
                raise
            interrupted = True
    try:
        status = _show(folder)
    finally:
        # Told also where a second Ctrl-C stops the rendering.
        if interrupted:
            _tell_how_to_go_on(folder, again)
    return INTERRUPTED if interrupted else status


def _tell_how_to_go_on(folder: Path, again: str) -> None:
    name = shlex.quote(str(folder))
    print(f"stopped; what was measured is kept.\ngo on:   {again} {name}", file=sys.stderr)
    print(f"render:  mixprec report {name}", file=sys.stderr)


def _show(folder: Path) -> int:
    records = list(read_records(folder / "records.jsonl"))
    summary = summarize(records)
    print_summary(summary)
    print(f"report: {write_report(folder)}")
    if any(row.status == "failed" for row in summary.rows):
        return FAILED
    return exit_status(verdict.outcome for verdict in judge(summary))
