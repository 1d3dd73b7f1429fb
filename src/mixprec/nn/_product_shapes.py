"""Which shapes the functions of matrix products take: what they do not, torch refuses in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._dtype_plumbing import spelled

#: Dimensions of both operands, of functions that take no others.
_DIMS: Mapping[Callable[..., Any], tuple[int, int]] = {
    function: dims
    for name, dims in (("mm", (2, 2)), ("bmm", (3, 3)), ("mv", (2, 1)))
    for function in spelled(name, torch, torch.Tensor)
}


def takes_shapes(func: Callable[..., Any], a: object, b: object) -> bool:
    """Whether ``func``, a ``matmul`` or one of its narrower relatives, multiplies operands of these shapes.

    A trace, where sizes may be symbols, is not asked.
    """
    if torch.compiler.is_compiling() or not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return True
    left, right = a.shape, b.shape
    if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
        return False
    dims = _DIMS.get(func)
    if dims is not None:
        return (len(left), len(right)) == dims and (dims != (3, 3) or left[0] == right[0])
    pairs = zip(reversed(left[:-2]), reversed(right[:-2]), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)
