"""A tree of state as JSON and named tensors, and back, exactly; nothing of it can run code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from ._leaves import CONTAINERS, LEAVES, dtype_text, is_plain
from ._tensor_file import COMMON_DTYPES

_TENSOR, _ARRAY, _SCALAR = "$tensor", "$array", "$scalar"
_LEAVES_BY_TAG = MappingProxyType({leaf.tag: leaf for leaf in LEAVES.values()})
_CONTAINERS_BY_TAG = MappingProxyType({container.tag: container for container in CONTAINERS.values()})
_ARRAY_KINDS = "biufc"  # numpy's kinds of numbers


@dataclass(frozen=True)
class PackedState:
    """A state in two halves.

    Attributes:
        structure: JSON values, in which tensors are named; by part.
        tensors: by part, then by name; contiguous, on the devices that they were on.
    """

    structure: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


def pack_state(parts: Mapping[str, object]) -> PackedState:
    """Take a state apart.

    Dictionaries (also ordered ones and counters), lists, tuples, sets, ``None``, numbers, text, bytes, dtypes,
    devices, arrays and scalars of numpy, and dense tensors of every dtype are kept exactly: NaN bits, strides, order
    of keys. A tensor that occurs twice is stored once and is one tensor again afterwards. Other lists and
    dictionaries that occur twice become two.

    Args:
        parts: what the state is made of; each part's tensors are kept apart, and named by their paths in it.

    Raises:
        TypeError: a value that cannot be stored without running code to read it.
        ValueError: a tensor without dense values, or a container that holds itself.

    Example:
        >>> packed = pack_state({"a": {"w": torch.ones(2), "lr": (0.1, float("nan"))}})
        >>> packed.structure
        {'a': {'w': {'$tensor': ['a', 'w']}, 'lr': {'$tuple': [0.1, {'$float': '7ff8000000000000'}]}}}
        >>> unpack_state(packed)["a"]["w"]
        tensor([1., 1.])
    """
    packer = _Packer()
    structure = {part: packer.encode(value, part, (part,)) for part, value in parts.items()}
    return PackedState(structure, packer.tensors)


def unpack_state(packed: PackedState) -> dict[str, Any]:
    """Put a state together again; its tensors are on the CPU if those that are given are.

    Raises:
        ValueError: a mark that this version does not know, or a tensor that is named and not there.
    """
    unpacker = _Unpacker(packed.tensors)
    return {part: unpacker.decode(value) for part, value in packed.structure.items()}


class _Packer:
    def __init__(self) -> None:
        self.tensors: dict[str, dict[str, Tensor]] = {}
        self._seen: dict[tuple[object, ...], dict[str, Any]] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, part: str, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if is_plain(value):
            return value
        if kind in LEAVES:
            return {LEAVES[kind].tag: LEAVES[kind].encode(value)}
        if kind in (Tensor, Parameter):
            return self._tensor(value.detach(), part, path)
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _ARRAY_KINDS:
            return self._array(value, part, path)
        if kind is not list and kind not in CONTAINERS:
            raise TypeError(_refusal(value, path))
        if id(value) in self._open:
            raise ValueError(f"save: {'.'.join(path)} holds itself: a checkpoint is a tree")
        self._open.add(id(value))
        try:
            return self._container(value, part, path)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, part: str, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if kind is list:
            return [self.encode(item, part, (*path, str(i))) for i, item in enumerate(cast("list[Any]", value))]
        container = CONTAINERS[kind]
        if not container.is_mapping:
            return {container.tag: [self.encode(item, part, (*path, str(i))) for i, item in enumerate(value)]}
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, part, (*path, key)) for key, item in value.items()}
        pairs = [
            [self.encode(key, part, (*path, "key")), self.encode(item, part, (*path, str(key)))]
            for key, item in value.items()
        ]
        return {container.tag: pairs}

    def _tensor(self, value: Tensor, part: str, path: tuple[str, ...]) -> dict[str, Any]:
        _refuse_not_dense(value, path)
        key = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
        key += (value.is_conj(), value.is_neg())
        if value.numel() and key in self._seen:
            return self._seen[key]
        plain = value.resolve_conj().resolve_neg()
        entry: dict[str, Any] = {_TENSOR: None}
        stored = plain.contiguous()
        if stored.stride() != plain.stride() and _is_permuted(plain):
            entry["strides"] = list(plain.stride())
        if plain.dtype not in COMMON_DTYPES:
            entry |= {"dtype": dtype_text(plain.dtype), "shape": list(plain.shape)}
            stored = stored.reshape(-1).view(torch.uint8)
        entry[_TENSOR] = self._name(stored, part, path)
        if value.numel():
            self._seen[key] = entry
        return entry

    def _array(self, value: Any, part: str, path: tuple[str, ...]) -> dict[str, Any]:
        whole = np.array(value, order="C")  # a copy: torch wants memory that can be written
        data = torch.from_numpy(whole.reshape(-1).view(np.uint8))
        entry = {_ARRAY: self._name(data, part, path), "dtype": whole.dtype.str, "shape": list(whole.shape)}
        return entry if isinstance(value, np.ndarray) else entry | {_SCALAR: True}

    def _name(self, stored: Tensor, part: str, path: tuple[str, ...]) -> list[str]:
        """Keep a tensor under a name that is free."""
        group = self.tensors.setdefault(part, {})
        wanted = name = ".".join(path[1:]) or "value"
        number = 2
        while name in group or name == "__metadata__":
            name, number = f"{wanted}#{number}", number + 1
        group[name] = stored
        return [part, name]


class _Unpacker:
    def __init__(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        self._tensors = tensors
        self._made: dict[tuple[str, str], Tensor] = {}

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        entry = cast("dict[str, Any]", value)
        tag = next((key for key in entry if key.startswith("$")), None)
        if tag is None:
            return {key: self.decode(item) for key, item in entry.items()}
        if tag == _TENSOR:
            return self._tensor(entry)
        if tag == _ARRAY:
            return self._array(entry)
        if tag in _LEAVES_BY_TAG:
            return _LEAVES_BY_TAG[tag].decode(entry[tag])
        if tag not in _CONTAINERS_BY_TAG:
            raise ValueError(f"the state has a value marked {tag}, which this version of mixprec does not know")
        container = _CONTAINERS_BY_TAG[tag]
        if container.is_mapping:
            return container.build([(self.decode(key), self.decode(item)) for key, item in entry[tag]])
        return container.build([self.decode(item) for item in entry[tag]])

    def _tensor(self, entry: dict[str, Any]) -> Tensor:
        part, name = entry[_TENSOR]
        if (part, name) not in self._made:
            stored = self._find(part, name)
            if "dtype" in entry:
                dtype: torch.dtype = _LEAVES_BY_TAG["$dtype"].decode(entry["dtype"])
                stored = stored.view(dtype).reshape(entry["shape"])
            if "strides" in entry:
                stored = torch.empty_strided(stored.shape, entry["strides"], dtype=stored.dtype).copy_(stored)
            self._made[part, name] = stored
        return self._made[part, name]

    def _array(self, entry: dict[str, Any]) -> Any:
        data = self._find(*entry[_ARRAY]).numpy().tobytes()
        whole = np.frombuffer(data, dtype=np.dtype(entry["dtype"])).reshape(entry["shape"]).copy()
        return whole[()] if _SCALAR in entry else whole

    def _find(self, part: str, name: str) -> Tensor:
        try:
            return self._tensors[part][name]
        except KeyError:
            raise ValueError(f"the state names a tensor {name} of {part}, which is not there") from None


def _refuse_not_dense(value: Tensor, path: tuple[str, ...]) -> None:
    if value.layout is not torch.strided or value.is_quantized or value.is_nested or value.is_meta:
        what = "without data (meta)" if value.is_meta else "sparse, quantized or nested"
        raise ValueError(f"save: {'.'.join(path)} is a tensor that is {what}: give dense values, e.g. .to_dense()")


def _refusal(value: object, path: tuple[str, ...]) -> str:
    where, kind = ".".join(path), f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, Tensor):
        advice = "give plain tensors (for sharded ones, torch.distributed.checkpoint takes a session's state)"
    elif plain := [kind.__name__ for kind in (int, float, str) if isinstance(value, kind)]:
        advice = f"give {plain[0]}(...) of it"
    else:
        advice = "its state_dict() must give numbers, text, bytes, tensors, arrays, and lists and dictionaries of them"
    return f"save: {where} is a {kind}, which a checkpoint cannot hold, for it is read without running code: {advice}"


def _is_permuted(tensor: Tensor) -> bool:
    """Whether a tensor is a contiguous one with its axes in another order, so that its strides can be given again."""
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    return tensor.permute(order).is_contiguous()
