"""A page as a file: rendered from its template, put in place at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ._folder import RunFolder, read_run_folder
from ._page import make_page
from ._render import render
from ._replace import replace
from .pair import make_pair_page


def write_report(
    run_folder: str | Path, out: str | Path | None = None, *, told: Callable[[str], None] = lambda line: None
) -> Path:
    """Render a run folder's records as one HTML page that loads nothing from anywhere.

    The page shows what was recorded so far: also of a comparison that still runs or was stopped.

    Args:
        run_folder: what `mixprec compare` or ``prepare(..., run=...)`` left.
        out: the file to write, in an existing folder; ``report.html`` in the run folder by default. It is replaced
            as a whole: a failure leaves the old one.
        told: called with a sentence for each damaged line of the records that is left out.

    Returns:
        The file that was written.

    Raises:
        ValueError: for a folder without records that can be read, or an ``out`` that is a folder.
        OSError: if something cannot be read or written.

    Example:
        >>> import tempfile
        >>> from mixprec.records import EvaluationRecord, write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> evaluation = EvaluationRecord(recipe="bf16", seed=0, step=9, forward="recipe", metrics={"loss": 2.5})
        >>> write_records(folder / "records.jsonl", [evaluation])
        >>> write_report(folder).name
        'report.html'
    """
    folder = Path(run_folder)
    found = read_run_folder(folder)
    page = make_page(found)
    path = _file(folder / "report.html" if out is None else Path(out))
    _tell(found, told)
    text = render("page.html", page, charts=page.charts, runs=page.numbers.runs if page.numbers else ())
    replace(path, text.encode())
    return path


def write_pair(
    first: str | Path,
    second: str | Path,
    out: str | Path | None = None,
    *,
    told: Callable[[str], None] = lambda line: None,
) -> Path:
    """Render two run folders side by side as one page: what differs in their settings, then their figures.

    Args:
        first: a run folder.
        second: another.
        out: the file to write; ``beside-NAME.html`` in the first folder by default, with the second's name.
        told: called with a sentence for each damaged line of the records that is left out.

    Returns:
        The file that was written.

    Raises:
        ValueError: for one folder twice, for one without records, or an ``out`` that is a folder.
        OSError: if something cannot be read or written.
    """
    if Path(first).resolve() == Path(second).resolve():
        raise ValueError(f"{first} and {second} are one folder: give two runs")
    folders = read_run_folder(Path(first)), read_run_folder(Path(second))
    path = _file(Path(first, f"beside-{folders[1].name}.html") if out is None else Path(out))
    page = make_pair_page(*folders)
    for found in folders:
        _tell(found, told)
    replace(path, render("pair.html", page, charts=page.charts).encode())
    return path


def _file(path: Path) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the report a file name, such as {path / 'report.html'}")
    return path


def _tell(found: RunFolder, told: Callable[[str], None]) -> None:
    for line in found.left_out:
        told(f"left out: {line.reason}")
