"""Bytes that autograd keeps of a forward pass."""

from collections.abc import Callable

from torch import Tensor, nn

from mixprec.compare import saved_activations


def saved_bytes(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> int:
    """What the backward pass of ``loss(model)`` needs, parameters not counted."""
    with saved_activations(model) as saved:
        value = loss(model)
    value.backward()
    model.zero_grad()
    return saved.bytes
