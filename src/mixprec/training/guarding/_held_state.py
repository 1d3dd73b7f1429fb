"""A copy of a run's state in host memory, into buffers that are used again."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

_PLAIN = (int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size)


class HeldState:
    """Holds a tree of mappings, lists and tuples with its tensors copied.

    Tensors of an accelerator go to pinned host memory, without waiting for it: the copy is queued before whatever
    changes them next, and ``give`` waits for it.

    Example:
        >>> held, weight = HeldState(), torch.ones(2)
        >>> held.take({"model": {"w": weight}, "step": 3})
        >>> _ = weight.mul_(5.0)
        >>> held.give()["model"]["w"], held.bytes
        (tensor([1., 1.]), 8)
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[object, ...], Tensor] = {}
        self._used: set[tuple[object, ...]] = set()
        self._tree: Any = None
        self._queued: list[torch.Event] = []

    @property
    def bytes(self) -> int:
        """That its copies take."""
        return sum(buffer.nbytes for buffer in self._buffers.values())

    def take(self, tree: Mapping[str, Any]) -> None:
        """Copy a tree, in place of what was held."""
        self._used.clear()
        self._tree = self._copied(tree, ())
        for path in self._buffers.keys() - self._used:
            del self._buffers[path]
        self._queued = _recorded()

    def give(self, *, as_held: Container[str] = ()) -> dict[str, Any]:
        """A copy of what is held, which stays.

        Args:
            as_held: branches of the tree that are given without a copy: whoever takes them copies them himself.
        """
        for event in self._queued:
            event.synchronize()
        fresh, tree = HeldState(), cast("dict[str, Any]", self._tree)
        return {name: part if name in as_held else fresh._copied(part, (name,)) for name, part in tree.items()}

    def _copied(self, value: Any, path: tuple[object, ...]) -> Any:
        if isinstance(value, Tensor):
            return self._copied_tensor(value, path)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            pairs = {key: self._copied(item, (*path, key)) for key, item in cast("Mapping[Any, Any]", value).items()}
            return pairs if type(cast("object", value)) is dict else _rebuilt(value, pairs)
        if type(value) in (list, tuple):
            items = cast("list[Any] | tuple[Any, ...]", value)
            if all(isinstance(item, int) for item in items):
                return items if isinstance(items, tuple) else list(items)
            copies = [self._copied(item, (*path, i)) for i, item in enumerate(items)]
            return copies if isinstance(items, list) else tuple(copies)
        return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)

    def _copied_tensor(self, value: Tensor, path: tuple[object, ...]) -> Tensor:
        self._used.add(path)
        source, held = value.detach(), self._buffers.get(path)
        if type(source) is not Tensor or source.layout is not torch.strided:
            held = source.clone()  # sharded or sparse: where it is
        elif held is None or held.shape != source.shape or held.dtype != source.dtype:
            on_device = source.device.type != "cpu"
            held = torch.empty(source.shape, dtype=source.dtype, pin_memory=on_device)
            held.copy_(source, non_blocking=on_device)
        else:
            held.copy_(source, non_blocking=source.device.type != "cpu")
        self._buffers[path] = held
        return held


def _rebuilt(value: Any, pairs: dict[Any, Any]) -> Any:
    """A mapping of another class with other values."""
    other = copy.copy(value)
    for key, item in pairs.items():
        other[key] = item
    return other


def _recorded() -> list[torch.Event]:
    """An event after what is queued on the accelerator in use; none without one."""
    if not torch.accelerator.is_available() or not torch.get_device_module().is_initialized():
        return []
    event = torch.Event(torch.accelerator.current_accelerator())
    event.record()
    return [event]
