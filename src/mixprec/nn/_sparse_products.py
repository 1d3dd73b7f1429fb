"""Products with a sparse matrix, which no cast takes: torch's own, in fp32."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._ranges import widened
from ._site import ConversionState
from ._telling import plain


def takes_sparse(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a product is given a sparse tensor of any layout; a compiler's trace takes none, and asks for none."""
    if torch.compiler.is_compiling():
        return False
    return _any_sparse(args) or (bool(kwargs) and _any_sparse(kwargs.values()))


def _any_sparse(values: Iterable[Any]) -> bool:
    return any(isinstance(v, Tensor) and v.layout is not torch.strided for v in values)


def sparse_product(
    state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The call in fp32; under a 16-bit recipe a dense result has the compute dtype, as torch's autocast gives it.

    Torch has 16-bit kernels of some layouts only, none of them with gradients on every device.
    """
    if not state.is_16bit or "out" in kwargs:
        return plain(state, func, args, kwargs)
    wide = tuple(widened(a) for a in args), {name: widened(v) for name, v in kwargs.items()}
    with torch.autocast(state.device_type, enabled=False):
        y = plain(state, func, *wide)
    is_narrowed = isinstance(y, Tensor) and y.layout is torch.strided and y.dtype is torch.float32
    return y.to(state.compute_dtype) if is_narrowed else y
