"""What fp16 cannot hold, and the wider tensors that hold it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_16_BIT = (torch.float16, torch.bfloat16)
LARGEST_FP16 = torch.finfo(torch.float16).max
_NORMAL = torch.finfo(torch.float16).smallest_normal


def widened(value: Any) -> Any:
    """16-bit tensors in fp32; lists and tuples of them likewise; anything else as it is."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _16_BIT else value
    if type(value) in (list, tuple):
        return type(value)(widened(v) for v in value)
    return value


def sum_leaves_fp16(a: Tensor, b: Tensor, *, residual_16bit: bool) -> bool:
    """Whether the sum of two fp16 tensors goes to fp32: a mask of the lowest value plus a score overflows in fp16.

    Nothing tells a mask from a part of the residual stream, which the recipe may want in fp16: there only what is
    broadcast goes to fp32. Whether gradients are recorded has no say: training and evaluation compute the same.
    """
    return a.dtype == b.dtype == torch.float16 and not (residual_16bit and a.shape == b.shape)


def leaves_fp16(constant: Any, x: Any) -> bool:
    """Whether a constant (an epsilon, a mask's -1e9) is outside the normal range of an fp16 tensor ``x``."""
    if type(constant) not in (int, float) or not isinstance(x, Tensor) or x.dtype != torch.float16:
        return False
    return constant != 0 and not (_NORMAL <= abs(constant) <= LARGEST_FP16) and abs(constant) != float("inf")
