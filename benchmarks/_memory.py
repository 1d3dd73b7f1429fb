"""Bytes that autograd keeps of a forward pass."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mixprec.compare import saved_activations


def saved_bytes(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> int:
    """What the backward pass of ``loss(model)`` needs, parameters not counted."""
    with saved_activations(model) as saved:
        value = loss(model)
    value.backward()
    model.zero_grad()
    return saved.bytes


def saved_by_linears(model: nn.Module, rows: int) -> int:
    """What the linear layers of the model's blocks keep of an input of so many rows each, alone."""
    total = 0
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and name != "head":
            x = torch.randn(rows, layer.in_features, requires_grad=True)
            total += saved_bytes(layer, lambda inner, x=x: inner(x).sum())
    return total
