"""Hardware of the user's own, from a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ._catalog import find
from ._figure import Figure
from ._hardware import Hardware
from ._measured import CastCost, Curve, Grid, Measured

Made = TypeVar("Made")

_FIGURES = ("memory", "bandwidth", "link", "network", "launch")
_TABLES = ("rates", "attainable")
_KEYS = (
    *("name", "title", "kind", "capability", "like", "price_per_hour", "is_validated", "block_formats"),
    *(*_FIGURES, *_TABLES, "measured"),
)
_MEASURED = ("machine", "threads", "torch", "products", "operators", "casts", "call", "cold", "reference")


def load_hardware(path: str | Path) -> Hardware:
    r"""Read hardware from a TOML file; ``mixprec calibrate`` writes one.

    Every figure is ``{value = 312e12, source = "the data sheet"}``. With ``like = "rtx4090"`` the file changes a device
    of the catalog, for example only its price.

    Raises:
        ValueError: no TOML, an unknown key, a value of another type, a figure without a source.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mine.toml"
        >>> _ = file.write_text('like = "rtx4090"\nname = "mine"\nprice_per_hour = 0.4\n')
        >>> load_hardware(file).price_per_hour
        0.4
    """
    where = str(path)
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is not TOML: {error}") from error
    try:
        return parse_hardware(table)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def parse_hardware(table: Mapping[str, Any]) -> Hardware:
    """Hardware from the tables of its file; see ``load_hardware``."""
    _check_keys("hardware", table, _KEYS)
    values: dict[str, Any] = {
        name: _text(table, name) for name in ("name", "title", "kind", "capability") if name in table
    }
    values |= {name: _figure(name, table[name]) for name in _FIGURES if name in table}
    for name in _TABLES:
        if name in table:
            rows = _table(name, table[name])
            values[name] = {key: _figure(f"{name}.{key}", value) for key, value in rows.items()}
    if "block_formats" in table:
        values["block_formats"] = tuple(_texts("block_formats", table["block_formats"]))
    if "price_per_hour" in table:
        values["price_per_hour"] = _number("price_per_hour", table["price_per_hour"])
    if "is_validated" in table:
        values["is_validated"] = _boolean("is_validated", table["is_validated"])
    if "measured" in table:
        values["measured"] = _measured(_table("measured", table["measured"]))
    if "like" in table:
        base = find(_text(table, "like"))
        merged = {name: {**getattr(base, name), **values[name]} for name in _TABLES if name in values}
        return replace(base, **{**values, **merged})
    missing = [name for name in ("name", "kind") if name not in values]
    if missing:
        raise ValueError(
            f'hardware has no {" and no ".join(missing)}: add them, or like = "rtx4090" to change a known device'
        )
    return Hardware(**{"title": values["name"], **values})


def _measured(table: Mapping[str, Any]) -> Measured:
    _check_keys("measured", table, _MEASURED)
    missing = [name for name in _MEASURED if name not in table]
    if missing:
        raise ValueError(f"measured has no {', '.join(missing)}: run `mixprec calibrate` again")
    sections = {name: _table(f"measured.{name}", table[name]) for name in ("products", "operators", "casts")}
    return Measured(
        machine=_text(table, "machine"),
        threads=int(_number("measured.threads", table["threads"])),
        torch=_text(table, "torch"),
        products={name: _grid(f"measured.products.{name}", grid) for name, grid in sections["products"].items()},
        operators={name: _curve(f"measured.operators.{name}", rows) for name, rows in sections["operators"].items()},
        casts={name: _cast(f"measured.casts.{name}", row) for name, row in sections["casts"].items()},
        call=_number("measured.call", table["call"]),
        cold=_number("measured.cold", table["cold"]),
        reference=_number("measured.reference", table["reference"]),
    )


def _grid(where: str, value: Any) -> Grid:
    table = _table(where, value)
    _check_keys(where, table, ("m", "n", "k", "seconds"))
    m, n, k = (tuple(int(size) for size in _numbers(f"{where}.{name}", table.get(name))) for name in ("m", "n", "k"))
    return _told_at(where, lambda: Grid(m, n, k, tuple(_numbers(f"{where}.seconds", table.get("seconds")))))


def _curve(where: str, value: Any) -> Curve:
    rows = [tuple(_numbers(where, row)) for row in _list(where, value)]
    if any(len(row) != 2 for row in rows):
        raise ValueError(f"{where} is {value!r}, expected pairs of bytes and seconds")
    return _told_at(where, lambda: Curve(tuple((size, seconds) for size, seconds in rows)))


def _cast(where: str, value: Any) -> CastCost:
    table = _table(where, value)
    _check_keys(where, table, ("call", "element"))
    numbers = {name: _number(f"{where}.{name}", table.get(name)) for name in ("call", "element")}
    return CastCost(**numbers)


def _figure(where: str, value: Any) -> Figure:
    if not isinstance(value, dict):
        raise ValueError(
            f'{where} is {value!r}, expected a figure with its source: {{value = 1e12, source = "the data sheet"}}'
        )
    table = cast("dict[str, Any]", value)
    _check_keys(where, table, ("value", "source"))
    if "source" not in table:
        raise ValueError(f"{where} has no source: a figure without one is not taken; say where it comes from")
    number = _number(f"{where}.value", table.get("value"))
    return _told_at(where, lambda: Figure(number, _text(table, "source")))


def _told_at(where: str, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _check_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            offer = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"unknown key '{key}' in {where}: expected some of {', '.join(names)}{offer}")


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise ValueError(f'{name} is {value!r}, expected text, such as {name} = "..."')
    return value


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} is {value!r}, expected a number")
    return float(value)


def _boolean(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{where} is {value!r}, expected true or false")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is {value!r}, expected a list")
    return cast("list[Any]", value)


def _numbers(where: str, value: Any) -> list[float]:
    return [_number(where, item) for item in _list(where, value)]


def _texts(where: str, value: Any) -> list[str]:
    rows = _list(where, value)
    if not all(isinstance(row, str) for row in rows):
        raise ValueError(f"{where} is {value!r}, expected a list of names")
    return cast("list[str]", rows)


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {value!r}, expected a table: [{where}]")
    return cast("dict[str, Any]", value)
