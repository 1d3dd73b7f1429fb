"""Sums of two tensors of a residual stream in fp16, unless one is a mask that takes them out of fp16's range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ._ranges import LARGEST_FP16


def narrow_sum(func: Callable[..., Any], a: Tensor, b: Tensor, kwargs: Mapping[str, Any]) -> Tensor:
    """``a + b`` or ``a - b`` in fp16; in fp32 where both are finite and fp16 does not hold the sum.

    A compiler's trace, which cannot ask for values, gives fp16's largest there: finite, though a row of such sums is
    not told apart. Of tensors that are shapes, which nobody records, it is the sum that fp16 holds: what a step
    keeps is counted on these.

    Args:
        func: adds, or subtracts.
        a: of fp16 or fp32.
        b: likewise.
        kwargs: of the call.
    """
    y = func(a.half(), b.half(), **kwargs)
    if _is_shape_alone(y):
        return y
    if _has_values(y):
        if bool(y.isfinite().all()):
            return y
        wide = func(a.float(), b.float(), **kwargs)
        return wide if bool((y.isinf() & wide.isfinite()).any()) else y
    wide = func(a.float(), b.float(), **kwargs)
    return torch.where(y.isinf() & wide.isfinite(), wide.clamp(-LARGEST_FP16, LARGEST_FP16).half(), y)


def _is_shape_alone(y: Tensor) -> bool:
    """Whether there are no values, and there will be none: nothing records the operations to run them later."""
    if torch.compiler.is_compiling():
        return False
    return (y.is_meta or isinstance(y, FakeTensor)) and get_proxy_mode() is None


def _has_values(y: Tensor) -> bool:
    """Whether Python may ask for values: not in a trace or a CUDA graph's capture, nor of a fake tensor."""
    if torch.compiler.is_compiling() or y.is_meta or type(y) is not Tensor:
        return False
    return not (y.is_cuda and torch.cuda.is_current_stream_capturing())
