"""Which operand of a product that a model calls as a function is a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ._parameter_views import parameter_of
from ._site import ConversionState

#: The attribute of a tensor that holds chosen matrices of a weight.
_GATHERED = "_mixprec_gathered_weight"
Side = Literal["left", "right", "neither"]


def is_weight(t: Tensor) -> bool:
    """Whether a tensor of two or more dimensions is a parameter, a view of one, or matrices chosen from one."""
    return t.dim() > 1 and (parameter_of(t) is not None or hasattr(t, _GATHERED))


def weight_side(a: Tensor, b: Tensor) -> Side:
    """Which operand of ``a @ b`` is a weight; neither if both are, since then no activation passes."""
    left, right = is_weight(a), is_weight(b)
    return "neither" if left == right else "left" if left else "right"


def gathered(state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``weight[index]`` and ``index_select`` of a stack of matrices: a matrix for each token, which stays a weight."""
    y = func(*args, **kwargs)
    source = args[0] if args else None
    if state.functions and type(source) is nn.Parameter and source.dim() > 2 and isinstance(y, Tensor):
        setattr(y, _GATHERED, True)
    return y


GATHERS: tuple[Callable[..., Any], ...] = (torch.Tensor.__getitem__, torch.Tensor.index_select, torch.index_select)
