"""What a tensor has to be for a result to go into it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def check_out(x: Tensor, out: Tensor, shape: Sequence[int]) -> Tensor:
    """``out``, if the result for ``x``, of the given shape, fits into it.

    Raises:
        ValueError: another shape, dtype or device than the result's, strides with gaps, a gradient, or x's memory.
    """
    fits = (
        list(out.shape) == list(shape) and out.dtype == torch.float32 and out.device == x.device and out.is_contiguous()
    )
    if not fits or out.requires_grad:
        raise ValueError(
            f"out is {list(out.shape)} {out.dtype} on {out.device} with strides {out.stride()}: expected a contiguous "
            f"fp32 tensor of shape {list(shape)} on {x.device}, without gradient"
        )
    if x.numel() and out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
        raise ValueError("out shares its memory with x: give another tensor, or None for a fresh one")
    return out
