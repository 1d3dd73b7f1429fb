"""What an autograd graph holds for its backward pass, read from its nodes before that pass runs.

Nothing is unpacked, hooked or changed: a tensor that hooks have packed (activation checkpointing, offloading) is not
computed or moved again, and the forward pass does not know that it is measured. What nodes hold beside saved tensors is
seen too: attributes of a custom function's context, and what a checkpoint keeps for its recomputation.
"""

# Raw saved tensors and the numbers of nodes have no public spelling.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ._storages import StorageKey, storages_in

_SavedTensor: Any = torch._C._autograd.SavedTensor  # pyright: ignore[reportAttributeAccessIssue]
_RAW = "_raw_saved_"
#: What checkpoints keep is in objects of this module.
_CHECKPOINT = "torch.utils.checkpoint"
#: Nodes whose saved tensors Python cannot see: operations in place on a view, and functions of C++ extensions.
_OPAQUE = ("CopySlices", "CppNode")


@dataclass(frozen=True)
class SavedStorage:
    """A storage that a graph holds.

    Attributes:
        bytes: of the whole storage.
        number: of the first node that holds it; nodes are numbered as they are made, by each thread.
    """

    bytes: int
    number: int


@dataclass(frozen=True)
class SavedTensors:
    """What a graph holds.

    Attributes:
        storages: by their memory.
        opaque: kinds of nodes that are in it and may hold more, which cannot be seen.
    """

    storages: Mapping[StorageKey, SavedStorage]
    opaque: frozenset[str]


def can_look_into_graphs() -> bool:
    """Whether this torch tells what a node holds without unpacking it."""
    return hasattr(_SavedTensor, "data") and hasattr(_SavedTensor, "unpack_hook")


def saved_tensors(
    root: Tensor, storages_of: Callable[[object], Mapping[StorageKey, int]] = storages_in
) -> SavedTensors:
    """What the graph of ``root`` holds, parameters and buffers that it saved included.

    Leaves themselves are not counted unless a node saved them. A graph whose backward pass has run holds nothing.

    Args:
        root: where the backward pass would begin.
        storages_of: the storages of tensors in containers, with their bytes.

    Example:
        >>> x = torch.ones(16, 8, requires_grad=True)
        >>> y = x.exp().sum()  # the gradient of exp needs its result: 16 * 8 * 4 bytes
        >>> [storage.bytes for storage in saved_tensors(y).storages.values()]
        [512]
    """
    storages: dict[StorageKey, SavedStorage] = {}
    opaque: set[str] = set()
    names: dict[type, tuple[str, ...]] = {}
    nodes = sorted(_nodes(root.grad_fn), key=_number)
    for node in nodes:
        kind = type(node)
        if kind not in names:
            names[kind] = tuple(name for name in dir(kind) if name.startswith(_RAW))
        for key, n in storages_of(list(_held_by_node(node, names[kind]))).items():
            storages.setdefault(key, SavedStorage(n, _number(node)))
        opaque.update(name for name in _OPAQUE if name in node.name())
    return SavedTensors(storages, frozenset(opaque))


def _nodes(root: Any) -> set[Any]:
    found: set[Any] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [following for following, _ in node.next_functions]
    return found


def _number(node: Any) -> int:
    return node._sequence_nr()


def _held_by_node(node: Any, names: Iterable[str]) -> Iterator[Tensor]:
    seen: dict[int, object] = {}
    for name in names:
        try:
            raw = getattr(node, name)
        except RuntimeError:  # the backward pass has run, and freed it
            continue
        yield from _held(raw, seen)
    # The node of a function written in Python is the function's context.
    yield from _held(dict(getattr(node, "__dict__", {})), seen)


def _held(value: object, seen: dict[int, object]) -> Iterator[Tensor]:
    """Tensors that a value keeps alive: in containers, packed, or in what a checkpoint remembers.

    Other objects are not looked into: a function's context may name the model.
    """
    if isinstance(value, Tensor):
        yield value
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, so that no other object gets its identity
    for part in _parts(value):
        yield from _held(part, seen)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, _SavedTensor):
        saved: Any = value
        return (saved.data, saved.unpack_hook)
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", value))
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    if type(value).__module__ == _CHECKPOINT:
        return list(getattr(value, "__dict__", {}).values())
    return ()


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
