"""The parameter behind a tensor."""

from __future__ import annotations

from torch import Tensor, nn


def parameter_of(t: Tensor) -> nn.Parameter | None:
    """The parameter that a tensor is, or is a view of."""
    if type(t) is nn.Parameter:
        return t
    base = t._base
    return base if type(base) is nn.Parameter else None
