"""Reading a file of targets, validated with pydantic; and the file to start from."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..formats import unknown_name
from ._targets import CostTarget, LatencyTarget, LayerTarget, MemoryTarget, QualityTarget, Targets

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_TABLES: Mapping[str, type] = {
    "latency": LatencyTarget,
    "memory": MemoryTarget,
    "cost": CostTarget,
    "layers": LayerTarget,
    "quality": QualityTarget,
}


def read_targets(path: str | os.PathLike[str]) -> Targets:
    """Read a file of targets; see ``Targets.load``."""
    # Costs a tenth of a second, which only who has targets should pay.
    from pydantic import TypeAdapter, ValidationError

    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"targets file '{path}' is not UTF-8 text: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"targets file '{path}' is not TOML: {error}") from error
    try:
        # As JSON, whose tables and lists pydantic takes for dataclasses and tuples where it converts nothing else.
        return TypeAdapter(Targets).validate_json(json.dumps(_with_absolute_gaps(table), default=str))
    except ValidationError as error:
        raise ValueError(f"targets file '{path}': {'; '.join(_said(one) for one in error.errors())}") from None


def write_targets_template(path: str | os.PathLike[str]) -> Path:
    """Write a complete, commented file of targets to start from.

    Args:
        path: where; must end in ``.toml``. An existing file is never overwritten.

    Raises:
        ValueError: the name does not end in ``.toml``, or the file exists.
        OSError: it cannot be written.

    Example:
        >>> import tempfile
        >>> sorted(Targets.load(write_targets_template(Path(tempfile.mkdtemp(), "targets.toml"))).quality)
        ['loss']
    """
    path = Path(path)
    if path.suffix != ".toml":
        raise ValueError(f"a targets file ends in .toml, got {str(path)!r}: try {path.with_suffix('.toml')}")
    text = files("mixprec.planner").joinpath("targets_template.txt").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path} exists and is not overwritten: choose another name") from None
    return path


def _with_absolute_gaps(table: dict[str, Any]) -> dict[str, Any]:
    """A number for a metric is its absolute gap."""
    if not isinstance(quality := table.get("quality"), dict):
        return table
    metrics = cast("dict[str, Any]", quality)
    return {**table, "quality": {n: {"absolute": v} if type(v) in (int, float) else v for n, v in metrics.items()}}


def _said(error: ErrorDetails) -> str:
    """One mistake: its place, what was got and what is expected."""
    where = list(error["loc"])
    if error["type"] == "unexpected_keyword_argument":
        *owner, key = where
        kind = _TABLES.get(str(owner[0]), Targets) if owner else Targets
        return str(unknown_name(f"key in {_place(owner)}:", key, [item.name for item in fields(kind)]))
    if error["type"] in ("missing", "missing_argument"):
        return f"{_place(where[:-1])} has no {where[-1]}: add a line such as {where[-1]} = ..."
    if error["type"] == "value_error":
        return f"{_place(where)}: {error['ctx']['error']}" if "ctx" in error else f"{_place(where)}: {error['msg']}"
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"{_place(where)} is {error['input']!r}: {message}"


def _place(where: Sequence[str | int]) -> str:
    text = ".".join(f"[{part}]" if isinstance(part, int) else str(part) for part in where)
    return text.replace(".[", "[") or "targets"
