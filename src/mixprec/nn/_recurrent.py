"""LSTM, GRU and RNN in a 16-bit compute dtype: 16-bit operands through torch's fp32 cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._site import ConversionState


def recurrent(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], state: ConversionState) -> Any:
    """``torch.lstm``, ``gru`` or ``rnn_*`` with input, state and weights rounded to the compute dtype.

    The recurrence itself runs in fp32 (its state is rounded when it leaves); the outputs are in the compute dtype.
    """
    with torch.autocast(state.device_type, enabled=False):
        outputs = func(*(_rounded(a, state.compute_dtype) for a in args), **kwargs)
        return tuple(y.to(state.compute_dtype) if y.is_floating_point() else y for y in outputs)


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype).float() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(_rounded(v, dtype) for v in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value
