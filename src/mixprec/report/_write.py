"""The page as a file: rendered from the template, put in place at once."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from dataclasses import fields
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from mixprec.records import NOTHING

from ._folder import read_run_folder
from ._page import Page, make_page

_NUMBER_AND_UNIT = re.compile(r"\S (?=[<>]?\d+ %)|\d (?:%|(?:[kMG]?B|ms|s|of)\b)")
_WORD, _CODE = re.compile(r"^[a-z]+(?=[ ,])"), re.compile(r"`([^`]+)`")
_TEMPLATES = Path(__file__).with_name("templates")


def write_report(run_folder: str | Path, out: str | Path | None = None) -> Path:
    """Render a run folder's records as one HTML page that loads nothing from anywhere.

    The page shows what was recorded so far: also of a comparison that still runs or was stopped.

    Args:
        run_folder: what `mixprec compare` or ``prepare(..., run=...)`` left.
        out: the file to write, in an existing folder; ``report.html`` in the run folder by default. It is replaced
            as a whole: a failure leaves the old one.

    Returns:
        The file that was written.

    Raises:
        ValueError: for a folder without records, with damaged or newer ones, or an ``out`` that is a folder.
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
    page = make_page(read_run_folder(folder))
    path = folder / "report.html" if out is None else Path(out)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the report a file name, such as {path / 'report.html'}")
    _replace(path, _render(page))
    return path


def _render(page: Page) -> str:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"tie": _tie, "sentence": _sentence}
    return environment.get_template("page.html").render(
        {field.name: getattr(page, field.name) for field in fields(page)},
        nothing=NOTHING,
        style=Markup("\n".join(_template(name) for name in ("page.css", "numbers.css"))),
        script=_script("\n".join(_template(name) for name in ("theme.js", "page.js", "numbers.js"))),
        plotly=_packed(get_plotlyjs()),
        chart_data=_json(page.charts),
        numbers_data=_json(page.numbers.runs if page.numbers else []),
    )


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _tie(text: str) -> str:
    """Keep a number and its unit on one line."""
    return _NUMBER_AND_UNIT.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def _sentence(text: str) -> Markup:
    """A text as one: with a capital where it begins with a word, and a full stop; backquotes make code."""
    begun = _WORD.sub(lambda found: found[0].capitalize(), text.rstrip("."))
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(_tie(begun))))) + "."


def _script(text: str) -> Markup:
    """Our own code, which may not end its element early."""
    return Markup(text.replace("</script", "<\\/script"))


def _packed(text: str) -> Markup:
    """Code as base64 of gzip: a third of its size, which the page unpacks once it is read."""
    return Markup(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii"))


def _json(value: object) -> Markup:
    """Data inside a script element: escaped so that no text in it can end the element."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026"))


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then move: a reader sees the old page or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
