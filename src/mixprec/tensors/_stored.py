"""The tensors of a file, by name, before any of them is read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

#: What casts can be tried on, and the format's name of each.
CASTABLE = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor that a file holds.

    Attributes:
        name: in its state dict; nested ones joined by dots.
        dtype: the format's name where casts can be tried on it (``"bf16"``), else torch's name (``"int64"``).
        shape: as stored.
        unfit: why no cast can be tried on it; empty if one can.
        read: gives the tensor.
        memory: equal for two names of one tensor (tied weights), where the file tells.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    unfit: str
    read: Callable[[], Tensor]
    memory: Hashable = None


def stored(name: str, dtype: torch.dtype | str, shape: tuple[int, ...], read: Callable[[], Tensor]) -> StoredTensor:
    """A stored tensor, judged by its dtype and shape.

    Args:
        name: of the tensor.
        dtype: torch's, or a name where torch has none.
        shape: as stored.
        read: gives the tensor.

    Example:
        >>> stored("step", torch.int64, (), lambda: torch.tensor(3)).unfit
        'int64, not floating point'
        >>> stored("w", torch.bfloat16, (2, 3), lambda: torch.zeros(2, 3)).dtype
        'bf16'
    """
    word = str(dtype).removeprefix("torch.")
    if isinstance(dtype, torch.dtype) and dtype in CASTABLE:
        return StoredTensor(name=name, dtype=CASTABLE[dtype], shape=shape, unfit=_shape_unfit(shape), read=read)
    narrow = word.startswith(("float8", "float6", "float4"))
    unfit = f"{word}, a low-precision format already" if narrow else f"{word}, not floating point"
    return StoredTensor(name=name, dtype=word, shape=shape, unfit=unfit, read=read)


def _shape_unfit(shape: tuple[int, ...]) -> str:
    if not shape:
        return "a single number"
    return "no elements" if 0 in shape else ""
