"""Tensors of a file that ``torch.save`` wrote, read without running any code of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ._stored import StoredTensor, stored

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
# In torch's messages: the name of a class or function that it will not load; what stands before the reason.
_GLOBAL = re.compile(r"(?:Unsupported global:|unsupported) GLOBAL (\S+)")
_PREFIX = re.compile(r".*?WeightsUnpickler error:\s*|\[enforce fail at [^]]*\][ .]*", re.DOTALL)


def is_torch_file(head: bytes) -> bool:
    """Whether a file that begins so may be one of ``torch.save``: a zip archive, or a bare pickle (before 1.6)."""
    return head.startswith((_ZIP, _PICKLE))


def torch_tensors(path: Path) -> list[StoredTensor]:
    """The tensors of a ``torch.save`` file, in whatever nest of dictionaries and lists, joined by dots.

    Read with ``weights_only=True``, and mapped rather than read where the file allows it (all but the format before
    torch 1.6).

    Raises:
        ValueError: it holds more than tensors and plain containers, or is damaged.
        OSError: it cannot be read.
    """
    return [_entry(name or "tensor", tensor) for name, tensor in _named(_load(path), "")]


def _entry(name: str, tensor: Tensor) -> StoredTensor:
    entry = stored(name, tensor.dtype, tuple(tensor.shape), tensor.detach)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return replace(entry, unfit="not a dense tensor")
    if tensor.is_meta:
        return replace(entry, unfit="without data (meta)")
    return replace(entry, memory=(tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()))


def _load(path: Path) -> object:
    with open(path, "rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    try:
        with warnings.catch_warnings():
            # About pickle protocols and TorchScript; what matters of it is an error below.
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"{path} {_problem(str(error))}") from error


def _problem(message: str) -> str:
    """What torch's long message says, in short."""
    foreign = _GLOBAL.search(message)
    if foreign:
        return (
            f"names {foreign[1]}, and loading that would run code; mixprec reads with weights_only=True: save the "
            "model's state_dict() alone, or a safetensors file"
        )
    if "TorchScript" in message:
        return (
            "holds a TorchScript program, which weights_only=True does not load: save its state_dict() with "
            "torch.save, or a safetensors file"
        )
    lines = _PREFIX.sub("", message, count=1).strip().splitlines() or ["it ends too early"]
    return f"is damaged, or is no file of torch.save that weights_only=True loads: {lines[0].partition('. ')[0]}"


def _named(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of nested containers."""
    if isinstance(value, Tensor):
        yield name, value
        return
    items: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        items = list(cast(Mapping[Any, Any], value).items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(cast(list[Any], value)))
    for key, item in items:
        yield from _named(item, f"{name}.{key}" if name else str(key))
