"""Whether the parts of a spec are of the kinds that it says; a dataclass takes anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import cast


@dataclass(frozen=True)
class Kind:
    """What a part may be.

    Attributes:
        text: in words.
        types: whose instances it may be; a boolean is no number.
        items: it is a tuple of these instead.
    """

    text: str
    types: tuple[type, ...] = ()
    items: type | None = None

    def holds(self, value: object) -> bool:
        """Whether a value is of this kind."""
        if self.items is not None:
            kind = self.items
            return isinstance(value, tuple) and all(isinstance(v, kind) for v in cast("tuple[object, ...]", value))
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))


TEXT, FLAG, WHOLE = Kind("str", (str,)), Kind("bool", (bool,)), Kind("int", (int,))
NUMBER, FRACTION = Kind("a number", (Real,)), Kind("Fraction", (Fraction,))


def one_of(kind: type, *, optional: bool = False) -> Kind:
    """An instance of a class; ``optional``: or ``None``."""
    return Kind(f"{kind.__name__} or None", (kind, type(None))) if optional else Kind(kind.__name__, (kind,))


def tuple_of(kind: type) -> Kind:
    """A tuple of instances of a class."""
    return Kind(f"a tuple of {kind.__name__}", items=kind)


def check_kinds(what: str, spec: object, kinds: Mapping[str, Kind]) -> None:
    """Refuse parts of other kinds, by name.

    Raises:
        TypeError: one is.
    """
    for name, kind in kinds.items():
        value = getattr(spec, name)
        if not kind.holds(value):
            raise TypeError(f"{what}: {name} is {value!r} ({type(value).__name__}), expected {kind.text}")


def check_text(what: str, given: object, example: str) -> None:
    """Refuse what is no text where one is to be read.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(given, str):
        raise TypeError(f"{what} is {given!r} ({type(given).__name__}), expected a text, such as {example!r}")
