"""Whether two batches hold the same, whatever they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import torch
from torch import Tensor

_HOLDS_DATA = (Tensor, Mapping, list, tuple)


def difference(first: object, second: object, where: str = "batch") -> str | None:
    """Where two batches differ, as a place in the first; ``None`` where they are the same.

    Tensors and arrays are compared by their elements (NaN is the same as NaN), mappings, lists, tuples and dataclasses
    by their parts, other objects by the tensors, arrays and containers in their attributes. What cannot be looked into
    counts as the same.

    Example:
        >>> one, other = {"x": [torch.zeros(2), "a"]}, {"x": [torch.ones(2), "a"]}
        >>> difference(one, other), difference(one, one)
        ("batch['x'][0]", None)
    """
    if first is second:
        return None
    if type(first) is not type(second):
        return where
    if isinstance(first, Tensor):
        return None if _are_same(first, cast(Tensor, second)) else where
    if _is_array(first):
        return difference(torch.as_tensor(first), torch.as_tensor(second), where)
    if isinstance(first, str | bytes | int | float | complex):
        return None if first == second or first != first else where
    parts, others = _parts(first), _parts(second)
    if parts.keys() != others.keys():
        return where
    found = (difference(part, others[name], where + name) for name, part in parts.items())
    return next((place for place in found if place is not None), None)


def _are_same(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.layout != torch.strided:
        first, second = first.to_dense(), second.to_dense()
    return bool(((first == second) | ((first != first) & (second != second))).all())


def _parts(value: object) -> dict[str, Any]:
    """The parts of a container or object, each by how it is reached."""
    if isinstance(value, Mapping):
        return {f"[{key!r}]": part for key, part in cast(Mapping[object, Any], value).items()}
    if isinstance(value, list | tuple):
        return {f"[{i}]": part for i, part in enumerate(cast("list[Any]", value))}
    if is_dataclass(value):
        return {f".{field.name}": getattr(value, field.name) for field in fields(value)}
    held: dict[str, Any] = getattr(value, "__dict__", {})
    return {f".{name}": part for name, part in held.items() if isinstance(part, _HOLDS_DATA) or _is_array(part)}


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__")
