"""The figures of a run folder's report as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mixprec.records import RecipeRecords, Table, group_by_recipe, summarize, table_csv

from ._folder import read_run_folder
from ._format_map import audit_of
from ._numbers_of import numbers_of
from ._page import make_page
from .export import write_files

#: What each figure is called.
_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "loss": "Training loss",
        "gap": "Gap in training loss, smoothed",
        "times": "Time of a step: median, 5th to 95th percentile",
        "throughput": "Done in a second, over the run",
        "memory": "Memory by kind",
        "estimates": "Estimated step over the baseline's",
    }
)


def write_figures(run_folder: str | Path, out: str | Path) -> tuple[Path, ...]:
    """Write each figure of a run folder's report as PNG and CSV, and all its numbers as JSON.

    ``formats.csv`` has the format of every product of every layer, ``report.json`` the settings, sentences, gaps with
    their intervals, times, memory, estimates and incidents.

    Args:
        run_folder: what `mixprec compare` or ``prepare(..., run=...)`` left.
        out: a folder, made where it is missing.

    Returns:
        The files.

    Raises:
        ValueError: for a folder without records, or where matplotlib is not installed.
        OSError: if something cannot be read or written.

    Example:
        >>> import tempfile
        >>> from mixprec.records import StepRecord, write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> step = StepRecord(
        ...     recipe="bf16", seed=0, step=0, loss=2.5, seconds=0.1, applied=True, grad_norm=None, loss_scale=None,
        ...     tokens=None,
        ... )
        >>> write_records(folder / "records.jsonl", [step])
        >>> sorted(path.name for path in write_figures(folder, folder / "figures"))
        ['loss.csv', 'loss.png', 'report.json']
    """
    folder = read_run_folder(Path(run_folder))
    page = make_page(folder)
    header, recipes = group_by_recipe(folder.records)
    charts: dict[str, Any] = {
        name: (f"{title} · {page.title}", page.charts[name])
        for name, title in _TITLES.items()
        if page.charts.get(name) is not None
    }
    for one in page.intervals:
        charts[_file_name(one.metric, charts)] = (f"Gap in {one.metric} with its interval · {page.title}", one.chart)
    formats = Table(headers=("site", "gemm", "recipe", "format"), rows=tuple(_formats(recipes)))
    tables = {"formats": table_csv(formats)} if formats.rows else {}
    words = {
        "sentences": {line.recipe: line.text for line in page.headlines},
        "limits": page.limits,
        "repeat": None if page.repeat is None else page.repeat.command,
        "incidents": [vars(own.incidents[key]) for own in recipes.values() for key in sorted(own.incidents)],
    }
    numbers = numbers_of(summarize(folder.records), header, folder.estimates, words)
    return write_files(Path(out), charts, tables, numbers)


def _file_name(metric: str, taken: Iterable[str]) -> str:
    """``intervals-METRIC``, of letters that any file system takes."""
    plain, others = "intervals-" + re.sub(r"[^\w.]+", "-", metric), set(taken)
    return next(name for i in count() if (name := f"{plain}-{i}" if i else plain) not in others)


def _formats(recipes: Mapping[str, RecipeRecords]) -> Iterable[tuple[str, str, str, str]]:
    for recipe, own in recipes.items():
        for site, cells in audit_of(own).items():
            for gemm, told in cells.items():
                yield site, gemm, recipe, told
