"""Bytes that an operator moves which multiplies no matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

#: Operators that make room and write nothing, or that only name what is there.
_FREE = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "set_"))
#: Operators that read of their first operand as much as they write.
_GATHERS = frozenset(("embedding", "index", "index_select", "gather", "nll_loss_forward", "nll_loss2d_forward"))
#: Operators in place that do not read what they overwrite.
_OVERWRITES = frozenset(("copy_", "fill_", "zero_", "normal_", "uniform_", "_foreach_copy_", "_foreach_zero_"))


def is_free(func: Any) -> bool:
    """Whether an operator moves no bytes: a view, or memory that nobody has written yet."""
    return bool(func.is_view) or func.namespace == "prim" or func._overloadpacket.__name__ in _FREE


def bytes_moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[int, int]:
    """Bytes read and written by an operator, each operand and result once.

    Args:
        func: an overload, as a dispatch mode sees it.
        args: its arguments.
        kwargs: its named arguments.
        out: its result.
    """
    name, given = func._overloadpacket.__name__, _by_argument(func, args, kwargs)
    changed = [t for argument, tensors in given if _is_written(argument) for t in tensors]
    read = [t for argument, tensors in given if not (name in _OVERWRITES and _is_written(argument)) for t in tensors]
    written = sum(map(tensor_bytes, changed)) or sum(map(tensor_bytes, tensors_in(out)))
    if name in _GATHERS:
        return written + sum(map(tensor_bytes, read[1:])), written
    return sum(map(tensor_bytes, read)), written


def tensor_bytes(t: Tensor) -> int:
    """Of a tensor's distinct elements: an expanded dimension is read once."""
    elements = 1
    for size, stride in zip(t.shape, t.stride(), strict=True):
        elements *= 1 if stride == 0 and size else size
    return elements * t.element_size()


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The dense tensors among values, those in lists too."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:  # pyright: ignore[reportUnknownVariableType]
            yield from tensors_in(value)


def _by_argument(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, list[Tensor]]]:
    arguments = func._schema.arguments
    named = {argument.name: argument for argument in arguments}
    pairs = [*zip(arguments, args, strict=False), *((named[name], value) for name, value in kwargs.items())]
    return [(argument, list(tensors_in(value))) for argument, value in pairs]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write
