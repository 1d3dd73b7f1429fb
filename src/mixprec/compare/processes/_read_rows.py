"""The lines of a script's log as rows: JSON lines, a JSON file, CSV, TSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

_STEP = "step"


class LogError(ValueError):
    """A log that cannot be read, or that lacks what was asked for; in words."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A value of a metric.

    Attributes:
        step: the row's ``step``, or its number, counted from 1.
        value: may be NaN or infinite.
        line: of the file, counted from 1.
    """

    step: int
    value: float
    line: int


_Rows = list[tuple[int, Mapping[str, Any]]]


def read_points(path: Path, key: str) -> list[Point]:
    r"""Read a metric from a log, in the order of the file; rows without it are passed over.

    Args:
        path: ``.csv`` and ``.tsv`` have a header, ``.json`` holds an object or a list of them; any other file has an
            object on each line.
        key: of the metric.

    Raises:
        LogError: no such file, a line that cannot be read, no row with the key, a value that is no number.

    Example:
        >>> import tempfile
        >>> log = Path(tempfile.mkdtemp()) / "log.csv"
        >>> _ = log.write_text("step,loss\n10,2.5\n20,\n30,nan\n")
        >>> [(point.step, point.value) for point in read_points(log, "loss")]
        [(10, 2.5), (30, nan)]
    """
    rows = _rows(path)
    points: list[Point] = []
    for number, (line, row) in enumerate(rows, 1):
        value = _find(row, key)
        if value is None or value == "":
            continue
        where = f"{path.name}, line {line}"
        step = _step(row.get(_STEP), number, where)
        points.append(Point(step=step, value=_number(value, f"{where}: {key}"), line=line))
    if not points:
        known = dict.fromkeys(name for _, row in rows for name in row)
        has = f"it has {', '.join(list(known)[:20])}" if known else "it has no rows"
        raise LogError(f"metric {key} is in no row of {path.name}: {has}")
    return points


def _rows(path: Path) -> _Rows:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        beside = sorted(item.name for item in path.parent.glob("*")) if path.parent.is_dir() else []
        there = f"; in its folder: {', '.join(beside[:10])}" if beside else ""
        raise LogError(f"{path} does not exist: the command did not write it{there}") from None
    except UnicodeDecodeError as error:
        raise LogError(f"{path.name} is not UTF-8 text: byte 0x{error.object[error.start]:02x}") from None
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from None
    return _READERS.get(path.suffix.lower(), _json_lines)(text, path.name)


def _json_lines(text: str, name: str) -> _Rows:
    rows: _Rows = []
    for line, content in enumerate(text.split("\n"), 1):
        if content.strip():
            rows.append((line, _object(_json(content, f"{name}, line {line}"), f"{name}, line {line}")))
    return rows


def _json_file(text: str, name: str) -> _Rows:
    value = _json(text, name)
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [(number, _object(item, name)) for number, item in enumerate(items, 1)]


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise LogError(f"{where} cannot be read as JSON: {text.strip()[:60]!r}") from None


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise LogError(f"{where} holds {str(value)[:60]!r}, expected a JSON object")
    return cast("dict[str, Any]", value)


def _table(text: str, name: str, delimiter: str) -> _Rows:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: _Rows = []
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) != len(header):
                raise LogError(f"{name}, line {reader.line_num} has {len(cells)} cells, its header {len(header)}")
            else:
                rows.append((reader.line_num, dict(zip(header, map(str.strip, cells), strict=True))))
    except csv.Error as error:
        raise LogError(f"{name}, line {reader.line_num} cannot be read as CSV: {error}") from None
    return rows


_READERS: Mapping[str, Callable[[str, str], _Rows]] = MappingProxyType(
    {
        ".json": _json_file,
        ".csv": lambda text, name: _table(text, name, ","),
        ".tsv": lambda text, name: _table(text, name, "\t"),
    }
)


def _find(row: Mapping[str, Any], key: str) -> object:
    """The value of a key; ``a.b`` is looked up as it is first, then in objects."""
    if key in row:
        return row[key]
    value: object = row
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(part)
    return value


def _number(value: object, where: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise LogError(f"{where} is {str(value)[:60]!r}, expected a number") from None


def _step(value: object, number: int, where: str) -> int:
    if value is None or value == "":
        return number
    step = _number(value, f"{where}: {_STEP}")
    if not (step >= 0 and step == step // 1):
        raise LogError(f"{where}: {_STEP} is {value}, expected a whole number, 0 or more")
    return int(step)
