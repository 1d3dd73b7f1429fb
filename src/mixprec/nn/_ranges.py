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


def leaves_fp16(constant: Any, x: Any) -> bool:
    """Whether a constant (an epsilon, a mask's -1e9) is outside the normal range of an fp16 tensor ``x``."""
    if type(constant) not in (int, float) or not isinstance(x, Tensor) or x.dtype != torch.float16:
        return False
    return constant != 0 and not (_NORMAL <= abs(constant) <= LARGEST_FP16) and abs(constant) != float("inf")
