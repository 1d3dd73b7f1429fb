"""16-bit floats from fp32: what NaN and subnormals become is the same on every processor."""

from __future__ import annotations

import torch
from torch import Tensor

_BF16_NAN, _FP16_NAN = 0x7FC0, 0x7E00
_HALF = 0x8000


def nearest_16_bits(values: Tensor, dtype: torch.dtype) -> Tensor:
    """fp32 values to bf16 or fp16, ties to even; overflow is infinity, and every NaN is 0x7fc0 (fp16: 0x7e00).

    Example:
        >>> nearest_16_bits(torch.tensor([1.00390625, 1.01171875, 3.4e38]), torch.bfloat16).tolist()
        [1.0, 1.015625, inf]
    """
    if dtype == torch.float16:
        return torch.where(values.isnan(), _pattern(_FP16_NAN, dtype), values.half())
    bits = values.view(torch.int32)
    return _bf16(values, bits + (_HALF - 1) + ((bits >> 16) & 1))


def nearest_away_bf16(values: Tensor) -> Tensor:
    """fp32 values to bf16, ties away from zero; NaN is 0x7fc0.

    Example:
        >>> nearest_away_bf16(torch.tensor([1.00390625])).item()
        1.0078125
    """
    return _bf16(values, values.view(torch.int32) + _HALF)


def exact_bf16(values: Tensor) -> Tensor:
    """fp32 values that are on bf16's grid; NaN is 0x7fc0.

    Example:
        >>> exact_bf16(torch.tensor([-1.5])).item()
        -1.5
    """
    return _bf16(values, values.view(torch.int32))


def _bf16(values: Tensor, bits: Tensor) -> Tensor:
    """The upper halves of bits."""
    upper = (bits >> 16).to(torch.int16).view(torch.bfloat16)
    return torch.where(values.isnan(), _pattern(_BF16_NAN, torch.bfloat16), upper)


def _pattern(bits: int, dtype: torch.dtype) -> Tensor:
    return torch.tensor(bits, dtype=torch.int16).view(dtype)
