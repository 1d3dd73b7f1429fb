"""A set of files into a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixprec.records import to_json

from .._replace import replace
from ._csv import chart_csv
from ._png import chart_png


def write_files(
    folder: Path,
    charts: Mapping[str, tuple[str, Mapping[str, Any]]],
    tables: Mapping[str, str],
    numbers: Mapping[str, Any],
) -> tuple[Path, ...]:
    """Write ``NAME.png`` and ``NAME.csv`` of each figure, further tables as CSV, and ``report.json``.

    Args:
        folder: made where it is missing; files of these names are replaced.
        charts: title and figure by name.
        tables: CSV by name.
        numbers: all numbers of the report; NaN and infinities become text, which JSON has no numbers for.

    Returns:
        The files that were written.

    Raises:
        OSError: if one cannot be written.
        ValueError: matplotlib is not installed.
    """
    found: dict[str, bytes] = {}
    for name, (title, chart) in charts.items():
        found[f"{name}.png"] = chart_png(chart, title)
        found[f"{name}.csv"] = chart_csv(chart).encode()
    found |= {f"{name}.csv": text.encode() for name, text in tables.items()}
    found["report.json"] = (json.dumps(to_json(numbers), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in found.items():
        replace(folder / name, data)
    return tuple(folder / name for name in found)
