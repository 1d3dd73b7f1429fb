"""Which operand of a product that a model calls as a function is a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from ._parameter_views import is_plain_parameter, parameter_of
from ._site import ConversionState

#: The attribute of a tensor that holds chosen matrices of a weight.
_GATHERED = "_mixprec_gathered_weight"
Side = Literal["left", "right", "neither"]


def is_weight(t: Tensor) -> bool:
    """Whether a tensor of two or more dimensions is a parameter, a view of one, or matrices chosen from one."""
    return t.dim() > 1 and (parameter_of(t) is not None or _is_gathered(t))


def kind_of(weight: Tensor) -> str:
    """What a product with a weight is for a rule: one of experts that are kept in a stack, or a linear layer's."""
    parameter = parameter_of(weight)
    is_one_of_many = (
        parameter is not None
        and weight.dim() == 2
        and parameter.dim() == 3
        and weight.numel() * parameter.shape[0] == parameter.numel()
    )
    return "grouped_mm" if weight.dim() > 2 or is_one_of_many or _is_gathered(weight) else "Linear"


def weight_side(a: Tensor, b: Tensor) -> Side:
    """Which operand of ``a @ b`` is a weight; neither if both are, since then no activation passes."""
    left, right = is_weight(a), is_weight(b)
    return "neither" if left == right else "left" if left else "right"


def side_of_weight(state: ConversionState, a: Tensor, b: Tensor) -> Side:
    """As ``weight_side``, where the caller has said that the second operand is one."""
    side = weight_side(a, b)
    explicit = state.functions is not None and state.functions.second_is_weight
    return "right" if side == "neither" and explicit else side


def _is_gathered(t: Tensor) -> bool:
    return hasattr(t, _GATHERED) or hasattr(t._base, _GATHERED)


def gathered(state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``weight[index]`` and ``index_select`` of a stack of matrices: a matrix for each token, which stays a weight."""
    y = func(*args, **kwargs)
    source = args[0] if args else None
    if state.functions and is_plain_parameter(source) and source.dim() > 2 and isinstance(y, Tensor):
        setattr(y, _GATHERED, True)
    return y


GATHERS: tuple[Callable[..., Any], ...] = (torch.Tensor.__getitem__, torch.Tensor.index_select, torch.index_select)
