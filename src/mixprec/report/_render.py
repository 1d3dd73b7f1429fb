"""A template with what a page holds, as one text that loads nothing."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from mixprec.records import NOTHING

from ._page import Page
from .pair import PairPage

_NUMBER_AND_UNIT = re.compile(r"\S (?=[<>]?\d+ %)|\d (?:%|(?:[kMG]?B|ms|s|of)\b)")
_WORD, _CODE = re.compile(r"^[a-z]+(?=[ ,])"), re.compile(r"`([^`]+)`")
_TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, page: Page | PairPage, *, charts: Mapping[str, Any], runs: Sequence[Any] = ()) -> str:
    """A template with what a page holds, its style, its scripts and the data of its charts."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"tie": _tie, "sentence": _sentence}
    return environment.get_template(template).render(
        {field.name: getattr(page, field.name) for field in fields(page)},
        nothing=NOTHING,
        style=Markup("\n".join(_template(name) for name in ("page.css", "numbers.css"))),
        script=_script("\n".join(_template(name) for name in ("theme.js", "page.js", "numbers.js"))),
        plotly=_packed(get_plotlyjs()),
        chart_data=_json(charts),
        numbers_data=_json(list(runs)),
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
    return Markup(base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii"))


def _json(value: object) -> Markup:
    """Data inside a script element: escaped so that no text in it can end the element."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026"))
