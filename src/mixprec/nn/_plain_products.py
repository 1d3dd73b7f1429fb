"""Functions with products inside that a recipe of fp32 activations leaves to torch, and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ._dtype_plumbing import Function, Handler, spelled
from ._rules import decompositions
from ._telling import plain


def _table() -> Mapping[Function, Handler]:
    names = "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell lstm gru rnn_tanh rnn_relu cdist addr"
    functions: tuple[Callable[..., Any], ...] = (
        *spelled(names, torch),
        torch.Tensor.addr,
        *decompositions(),
        F.affine_grid,
        F.bilinear,
        F.multi_head_attention_forward,
    )
    return dict.fromkeys(functions, plain)


PLAIN: Mapping[Function, Handler] = _table()
