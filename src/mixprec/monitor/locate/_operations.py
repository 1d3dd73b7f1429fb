"""What an operation's schema says of its arguments: which are changed, whether its result is a view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

#: Results whose values mean nothing yet.
_HOLLOW = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_")
#: Plain numbers that are no values of the result.
_NO_VALUES = ("dtype", "device", "layout", "dim", "p")
#: Operations with which a program writes an infinity into a tensor; others compute with it.
_WRITES = (
    "masked_fill",
    "full",
    "fill",
    "where",
    "scalar_tensor",
    "constant_pad_nd",
    "lift_fresh",
    "copy",
    "index_put",
)


@dataclass(frozen=True)
class Operation:
    """One operator.

    Attributes:
        name: e.g. ``"addmm"``, ``"mixprec::round"``.
        arguments: their names, in order.
        changed: positions and names of those that it writes to.
        is_silent: whether it makes no values: a view, or memory without values.
        talks: whether it waits for other ranks.
    """

    name: str
    arguments: tuple[str, ...]
    changed: frozenset[str]
    is_silent: bool
    talks: bool

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The arguments by name; the elements of a list share its name."""
        for name, value in (*zip(self.arguments, args, strict=False), *kwargs.items()):
            if isinstance(value, (list, tuple)):
                yield from ((name, element) for element in value)
            else:
                yield name, value

    def tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
        """The tensors that it reads, by the names of their arguments."""
        named = self.named(args, kwargs)
        return [(name, value) for name, value in named if isinstance(value, Tensor) and name != "out"]

    def title(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Its name, with the cast of one that rounds."""
        cast = next((v for n, v in self.named(args, kwargs) if n in ("cast", "row") and isinstance(v, str)), "")
        return f"{self.name} {cast}".rstrip()

    def numbers(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, float]:
        """The plain numbers among its arguments."""
        named = self.named(args, kwargs)
        return {n: float(v) for n, v in named if type(v) in (int, float) and n not in _NO_VALUES}


def writes_infinity(numbers: Mapping[str, float]) -> bool:
    """Whether the program has written an infinity or a NaN itself."""
    return any(not math.isfinite(value) for value in numbers.values())


def is_write(operation: Operation) -> bool:
    """Whether an operation puts a number into a tensor as it is."""
    return any(name in operation.name for name in _WRITES)


def operation_of(func: Any) -> Operation:
    """What the schema of an operator says."""
    schema = func._schema
    namespace, _, name = schema.name.partition("::")
    changed = frozenset(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    is_view = not changed and any(r.alias_info is not None for r in schema.returns)
    return Operation(
        name=name if namespace == "aten" else f"{namespace}::{name}",
        arguments=tuple(a.name for a in schema.arguments),
        changed=changed,
        is_silent=is_view or name in _HOLLOW,
        talks="c10d" in namespace,
    )
