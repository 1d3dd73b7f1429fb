"""Bytes of tensors: storages, each once and whole, whatever the number of tensors and views that share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.nn import Parameter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

#: A storage by its device and address: memory that two storage objects share (an array's, say) is one.
StorageKey = tuple[str, int]

_COMPRESSED = {
    torch.sparse_csr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_bsr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_csc: (Tensor.ccol_indices, Tensor.row_indices),
    torch.sparse_bsc: (Tensor.ccol_indices, Tensor.row_indices),
}


def storage_bytes(values: object) -> int:
    """Bytes of the distinct storages of all tensors in nested mappings, lists, tuples and other iterables.

    A view counts with the whole of its storage, which it keeps alive. A sparse tensor counts with its indices and
    values, a wrapper (a sharded or quantized tensor) with the tensors inside it; a meta tensor has no memory.

    Example:
        >>> x = torch.zeros(10)
        >>> storage_bytes({"a": x, "b": [x[:2], torch.zeros(1)], "c": "text"})
        44
    """
    return sum(storages_in(values).values())


def storages_in(values: object) -> dict[StorageKey, int]:
    """The distinct storages of all tensors in nested containers, with their bytes; those of no bytes are left out.

    Example:
        >>> x = torch.zeros(10)
        >>> list(storages_in([x, x[:2]]).values())
        [40]
    """
    return {key: n for tensor in tensors_in(values) for key, n in _storages_of(tensor)}


def tensors_in(values: object) -> Iterator[Tensor]:
    """All tensors in nested mappings (their values), lists, tuples and other iterables."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from tensors_in(value)
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for value in values:
            yield from tensors_in(value)


def _storages_of(tensor: Tensor) -> Iterator[tuple[StorageKey, int]]:
    for part in _dense_parts(tensor):
        storage = part.untyped_storage()
        if storage.nbytes():
            yield (str(part.device), storage.data_ptr()), storage.nbytes()


def _dense_parts(tensor: Tensor) -> Iterator[Tensor]:
    """The strided tensors that a tensor is made of; none of one without memory."""
    if is_traceable_wrapper_subclass(tensor):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]  # a DTensor names its mesh too
        for part in tensors_in(inner):
            yield from _dense_parts(part)
    elif isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
        return
    elif _is_hollow(tensor):
        for part in tensors_in(vars(tensor)):
            yield from _dense_parts(part)
    elif tensor.layout is torch.strided:
        yield tensor
    elif tensor.layout is torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())  # of one that is not coalesced too
    elif tensor.layout in _COMPRESSED:
        with torch.no_grad():
            yield from (*(part(tensor) for part in _COMPRESSED[tensor.layout]), tensor.values())


def _is_hollow(tensor: Tensor) -> bool:
    """Whether a tensor is a wrapper that does not tell its parts; its own storage has no memory."""
    if type(tensor) in (Tensor, Parameter) or tensor.layout is not torch.strided:
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return True
    return False
