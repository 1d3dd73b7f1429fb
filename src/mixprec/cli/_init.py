"""``mixprec init``: a workload file or a targets file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def command(file: Path, /, *, targets: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Write a complete, commented workload file to start from, or with `--targets` a file of targets.

    It runs as it is; put your own model, data and loss in its place. An existing file is never overwritten.

    For example: `mixprec init my.py`, then `mixprec compare my.py`; or `mixprec init --targets targets.toml`

    Args:
        file: where to write it; ends in `.py`, of targets in `.toml`.
        targets: what a run must keep to (quality, latency, memory, cost), for `mixprec plan`.
    """
    if targets:
        from mixprec.planner import write_targets_template

        print(f"wrote {write_targets_template(file)}; for: mixprec plan WORKLOAD --hardware H --targets {file}")
        return 0
    from mixprec.compare import write_template

    written = write_template(file)
    print(f"wrote {written}; it runs as it is: mixprec compare {written}")
    return 0
