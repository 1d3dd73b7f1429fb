"""Inputs that are kept anyway, by the operation that made them."""

from __future__ import annotations

import torch
from torch import Tensor

from ._operand_cast import OperandCast

#: Nodes of views: the same memory under another shape.
_VIEWS = ("ViewBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0")


def costs_nothing_to_keep(x: Tensor, cast: OperandCast) -> bool:
    """Whether wgrad may read the input itself, at no bytes more: its producer keeps it, and a cast later is the same.

    Torch calls an output that its operation keeps ``result``: ReLU's (in place too), sigmoid's, tanh's, softmax's and
    others'. A random cast may share its words with the forward pass's, and a delayed one's scale moves on: their codes
    are kept. So are those of what a compiler traces, which plans itself what is kept.
    """
    if torch.compiler.is_compiling() or cast.random or cast.delayed is not None:
        return False
    node = x.grad_fn
    while node is not None and node.name() in _VIEWS:
        node = node.next_functions[0][0]
    # The raw attribute: reading the other would unpack it, and run a checkpoint's recomputation.
    return node is not None and hasattr(node, "_raw_saved_result")
