"""``mixprec report``: the page of a run folder."""

from __future__ import annotations

from pathlib import Path


def command(run: Path, /) -> int:
    """Render a run folder as one self-contained HTML page.

    Works on what is there, also for a run that was interrupted.

    For example: `mixprec report runs/compare-gpt-20260101-120000`

    Args:
        run: the folder, with its `records.jsonl`.
    """
    from mixprec.report import write_report

    print(f"report: {write_report(run)}")
    return 0
