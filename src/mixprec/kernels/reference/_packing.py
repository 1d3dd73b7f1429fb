"""Codes as bytes: every row is a little-endian bit stream that starts at a byte."""

from __future__ import annotations

import torch
from torch import Tensor


def pack(codes: Tensor, bits: int) -> Tensor:
    """int64 codes ``[R, C]`` -> uint8 ``[R, ceil(C * bits / 8)]``.

    Example:
        >>> pack(torch.tensor([[0x1, 0x2, 0xF]]), 4).tolist()
        [[33, 15]]
    """
    rows, columns = codes.shape
    stream = ((codes.unsqueeze(-1) >> _places(bits, codes)) & 1).to(torch.uint8).reshape(rows, columns * bits)
    stream = torch.nn.functional.pad(stream, (0, -stream.shape[1] % 8))
    octets = stream.reshape(rows, stream.shape[1] // 8, 8)
    return _join(octets, torch.uint8)


def unpack(packed: Tensor, bits: int, columns: int) -> Tensor:
    """uint8 ``[R, ceil(columns * bits / 8)]`` -> int64 codes ``[R, columns]``.

    Example:
        >>> unpack(torch.tensor([[33, 15]], dtype=torch.uint8), 4, 3).tolist()
        [[1, 2, 15]]
    """
    rows = packed.shape[0]
    stream = (packed.unsqueeze(-1) >> _places(8, packed).to(torch.uint8)) & 1
    stream = stream.reshape(rows, packed.shape[1] * 8)[:, : columns * bits]
    return _join(stream.reshape(rows, columns, bits), torch.int64)


def _places(bits: int, like: Tensor) -> Tensor:
    return torch.arange(bits, device=like.device)


def _join(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Bits along the last axis, lowest first -> integers."""
    result = torch.zeros(bits.shape[:-1], dtype=dtype, device=bits.device)
    for place in range(bits.shape[-1]):
        result |= bits[..., place].to(dtype) << place
    return result
