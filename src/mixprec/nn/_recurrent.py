"""LSTM, GRU and RNN in a 16-bit compute dtype: 16-bit operands through torch's fp32 cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._parameter_views import parameter_of
from ._site import ConversionState
from ._telling import compute_dtype_call
from ._twice import rounded_weight


def recurrent(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], state: ConversionState) -> Any:
    """``torch.lstm``, ``gru`` or ``rnn_*`` with input, state and weights rounded to the compute dtype.

    The recurrence itself runs in fp32 (its state is rounded when it leaves); the outputs are in the compute dtype.
    """
    with torch.autocast(state.device_type, enabled=False), compute_dtype_call(state, rounded=True):
        outputs = func(*(rounded(a, state) for a in args), **kwargs)
        return tuple(y.to(state.compute_dtype) if y.is_floating_point() else y for y in outputs)


def rounded(value: Any, state: ConversionState) -> Any:
    """Floating tensors, in lists and tuples too, with values of the compute dtype, in fp32."""
    if isinstance(value, Tensor):
        if value.dtype == torch.float32 and parameter_of(value) is not None:
            return rounded_weight(value, state.compute_dtype)
        return value.to(state.compute_dtype).float() if value.is_floating_point() else value
    if type(value) in (list, tuple):
        return type(value)(rounded(v, state) for v in value)
    return value


def narrowed(value: Any, state: ConversionState) -> Any:
    """Floating tensors, in lists and tuples too, in the compute dtype."""
    if isinstance(value, Tensor):
        return value.to(state.compute_dtype) if value.is_floating_point() else value
    if type(value) in (list, tuple):
        return type(value)(narrowed(v, state) for v in value)
    return value
