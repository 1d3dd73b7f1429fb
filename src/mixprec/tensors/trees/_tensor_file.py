"""Tensors as a safetensors file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

# The names that safetensors gives dtypes: https://github.com/huggingface/safetensors#format
_WORDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
#: What every reader of safetensors knows; tensors of other dtypes are stored as their bytes.
COMMON_DTYPES = frozenset(_WORDS)
_ALIGNMENT = 64


def tensor_file_chunks(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, one tensor after the other, so that no copy of all of them is made.

    Written here rather than by the ``safetensors`` package, whose writer neither hashes nor waits for the disk; that
    package reads it.

    Args:
        tensors: contiguous, of the dtypes of ``COMMON_DTYPES``; brought to the host one by one.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _WORDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    yield len(text).to_bytes(8, "little")
    yield text
    for tensor in tensors.values():
        if tensor.numel():
            yield tensor.cpu().reshape(-1).view(torch.uint8).numpy().data


def read_tensor_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, in memory of their own.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        # Mapped tensors would change with the file, and lie at addresses that vector units do not like.
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except SafetensorError as error:
        raise ValueError(f"{path} is a damaged safetensors file: {error}") from None
