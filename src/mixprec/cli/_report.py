"""``mixprec report``: the page of a run folder, of two side by side, and its figures as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec report` can be told."""

    out: Path | None = None
    """The page's file. Default: `report.html` in the run folder; of two runs `beside-NAME.html` in the first."""
    figures: Path | None = None
    """Write each figure as PNG and CSV, and all numbers as `report.json`, to this folder (needs matplotlib)."""
    hardware: str | None = None
    """Estimate the recipes' steps on these devices (`h100-sxm,b200`, or paths of TOML files), and keep that in the run
    folder. Loads the workload."""


def command(
    run: Path, beside: Path | None = None, /, *, options: Annotated[Options, Parameter(name="*")] = Options()
) -> int:
    """Render a run folder as one self-contained HTML page, or two side by side.

    Works on what is there, also for a run that was interrupted. The page needs no network.

    For example:

    - `mixprec report runs/compare-gpt-20260101-120000`
    - `mixprec report runs/a --figures figures --hardware h100-sxm,b200`
    - `mixprec report runs/a runs/b`

    Args:
        run: the folder, with its `records.jsonl`.
        beside: another run, to be shown beside the first: what differs in their settings, then their figures.
        options: the rest.
    """
    from mixprec.report import write_figures, write_pair, write_report

    if beside is not None and (options.figures or options.hardware):
        raise ValueError("--figures and --hardware are of one run: leave the second out, or run it for each")
    if options.hardware is not None:
        from ._report_estimates import write_estimates

        print(f"estimates: {write_estimates(run, options.hardware)}")
    if beside is not None:
        print(f"report: {write_pair(run, beside, options.out, told=print)}")
        return 0
    print(f"report: {write_report(run, options.out, told=print)}")
    if options.figures is not None:
        written = write_figures(run, options.figures)
        print(f"figures: {len(written)} files in {options.figures}")
    return 0
