"""Tensors of a safetensors file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ._stored import StoredTensor, stored

# The names that safetensors gives dtypes: https://github.com/huggingface/safetensors#format
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NARROW = {"F4": "float4_e2m1", "F6_E2M3": "float6_e2m3", "F6_E3M2": "float6_e3m2"}


def is_safetensors(head: bytes) -> bool:
    """Whether a file that begins so is a safetensors file: eight bytes of length, then a JSON object."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32


def safetensors_tensors(path: Path) -> list[StoredTensor]:
    """The tensors of a safetensors file; only its header is read.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no mapping
            return [
                stored(name, _dtype(part.get_dtype()), tuple(part.get_shape()), partial(_read, path, name))
                for name, part in slices.items()
            ]
    except SafetensorError as error:
        raise ValueError(f"{path} is a damaged safetensors file: {error}") from None


def _dtype(word: str) -> torch.dtype | str:
    return _DTYPES.get(word) or _NARROW.get(word, word.lower())


def _read(path: Path, name: str) -> Tensor:
    from safetensors import safe_open

    # Mapped, not copied: the pages can be dropped again, so that the file may be larger than memory.
    with safe_open(path, "pt") as file:
        return file.get_tensor(name)
