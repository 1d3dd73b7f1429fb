"""What a model was called with: known again by a sample of it, without waiting for the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from ...records import BatchRow, TensorRow

#: Elements of a tensor that are looked at.
_SAMPLE = 256
_PLAIN = (str, int, float, complex, bool, type(None))


@dataclass(frozen=True)
class _Seen:
    """A tensor among the arguments; its sample stays on its device until somebody asks."""

    row: TensorRow
    sample: Tensor | None


@dataclass(frozen=True, kw_only=True)
class BatchIdentity:
    """One call's arguments, without the arguments.

    Attributes:
        name: that the user gave; may be empty.
        seen: its tensors.
        values: its numbers and texts, by their places.

    Example:
        >>> first, again = (BatchIdentity.of((torch.arange(9.0), 3)).row() for _ in range(2))
        >>> first == again, first == BatchIdentity.of((torch.arange(9.0), 4)).row()
        (True, False)
        >>> first["tensors"]
        ({'place': 'args[0]', 'shape': (9,), 'dtype': 'float32', 'device': 'cpu'},)
    """

    name: str
    seen: tuple[_Seen, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, name: str = "") -> BatchIdentity:
        """Look at a call's arguments: up to 256 elements of each tensor are copied, on its device."""
        seen, values = list[_Seen](), list[str]()
        for place, leaf in _leaves({"args": args, **(kwargs or {})}):
            if isinstance(leaf, Tensor):
                seen.append(_look(place, leaf))
            else:
                values.append(f"{place}={leaf!r}" if type(leaf) in _PLAIN else f"{place}: {type(leaf).__qualname__}")
        return cls(name=name, seen=tuple(seen), values=tuple(values))

    def row(self) -> BatchRow:
        """As a dump tells it; the samples are read from the device now."""
        digest = hashlib.blake2b("\n".join(self.values).encode(), digest_size=8)
        for one in self.seen:
            digest.update(f"{one.row['place']} {one.row['shape']} {one.row['dtype']}".encode())
            if one.sample is not None:
                digest.update(one.sample.cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return BatchRow(name=self.name, hash=digest.hexdigest(), tensors=tuple(one.row for one in self.seen))


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from _leaves(item, f"{place}[{key!r}]" if place else str(key))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(cast("list[Any]", value)):
            yield from _leaves(item, f"{place}[{i}]")
    else:
        yield place, value


def _look(place: str, tensor: Tensor) -> _Seen:
    row = TensorRow(
        place=place,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
    )
    return _Seen(row, _sample(tensor))


@torch.no_grad()
def _sample(tensor: Tensor) -> Tensor | None:
    """Elements at equal distances; nothing of a tensor that has none that can be picked."""
    count = tensor.numel()
    is_dense = type(tensor) in (Tensor, Parameter) and tensor.layout is torch.strided and not tensor.is_meta
    if not is_dense or not count:
        return None
    apart = max(1, count // _SAMPLE)
    if tensor.is_contiguous():
        return tensor.detach().view(-1)[::apart][:_SAMPLE].clone()
    flat = torch.arange(0, count, apart, device=tensor.device)[:_SAMPLE]
    return tensor.detach()[torch.unravel_index(flat, tensor.shape)]
