"""An expression of another package's names: built here, or written as Python, from one description."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_INDENT = "    "


@dataclass(frozen=True, kw_only=True)
class Name:
    """A name of another package.

    Attributes:
        module: that it is imported from.
        name: in it; dots go into a class.
        alias: what the module is called where names are told by it, e.g. ``"te"``; empty: the name itself is imported.
    """

    module: str
    name: str
    alias: str = ""

    @property
    def import_line(self) -> str:
        """The line that makes it known."""
        if not self.alias:
            return f"from {self.module} import {self.name.partition('.')[0]}"
        return f"import {self.module}" + ("" if self.alias == self.module else f" as {self.alias}")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a name by keywords, in their order."""

    function: Name
    arguments: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, function: Name, **arguments: Value) -> Call:
        """Give the call of a name."""
        return cls(function=function, arguments=tuple(arguments.items()))


Value = Name | Call | str | bool | int | float


def text_of(value: Value, *, before: int = 0, indent: int = 0, room: int = 100) -> str:
    """Write a value as Python, over several lines where it is longer than the room.

    Args:
        value: to write.
        before: characters on its line before it.
        indent: of its line, in steps of four.
        room: of a line.

    Example:
        >>> text_of(Call.of(Name(module="fractions", name="Fraction"), numerator=1, denominator=3))
        'Fraction(numerator=1, denominator=3)'
    """
    if isinstance(value, Name):
        return f"{value.alias}.{value.name}" if value.alias else value.name
    if not isinstance(value, Call):
        return f'"{value}"' if isinstance(value, str) else repr(value)
    head = text_of(value.function)
    line = f"{head}({', '.join(f'{name}={text_of(part, room=10**6)}' for name, part in value.arguments)})"
    if len(line) + before + 1 <= room or not value.arguments:
        return line
    inner = _INDENT * (indent + 1)
    parts = [f"{inner}{_argument(name, part, indent + 1, room)},\n" for name, part in value.arguments]
    return f"{head}(\n{''.join(parts)}{_INDENT * indent})"


def _argument(name: str, value: Value, indent: int, room: int) -> str:
    before = len(_INDENT) * indent + len(name) + 1
    return f"{name}={text_of(value, before=before, indent=indent, room=room)}"


def value_of(value: Value) -> Any:
    """Build what a value says, from the packages that it names.

    Raises:
        ModuleNotFoundError: one of them is not installed.

    Example:
        >>> value_of(Call.of(Name(module="fractions", name="Fraction"), numerator=1, denominator=3))
        Fraction(1, 3)
    """
    if isinstance(value, Name):
        found: Any = importlib.import_module(value.module)
        for part in value.name.split("."):
            found = getattr(found, part)
        return found
    if isinstance(value, Call):
        return value_of(value.function)(**{name: value_of(part) for name, part in value.arguments})
    return value


def imports_of(values: Iterable[Value]) -> list[str]:
    """Give the lines that import what values name: packages first, then names, each sorted."""
    names = {name for value in values for name in _names(value)}
    whole = sorted({name.import_line for name in names if name.alias})
    parts: dict[str, set[str]] = {}
    for name in names:
        if not name.alias:
            parts.setdefault(name.module, set()).add(name.name.partition(".")[0])
    return [*whole, *(_from(module, sorted(found)) for module, found in sorted(parts.items()))]


def _from(module: str, names: list[str], room: int = 100) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= room:
        return line
    return f"from {module} import (\n{''.join(f'{_INDENT}{name},{chr(10)}' for name in names)})"


def _names(value: Value) -> Iterator[Name]:
    if isinstance(value, Name):
        yield value
    elif isinstance(value, Call):
        yield value.function
        for _, part in value.arguments:
            yield from _names(part)
