"""The parameter behind a tensor."""

from __future__ import annotations

from typing import TypeGuard

from torch import Tensor, nn
from torch._subclasses import FakeTensor


def parameter_of(t: Tensor) -> nn.Parameter | None:
    """The parameter that a tensor is, or is a view of."""
    if is_plain_parameter(t):
        return t
    base = t._base
    return base if base is not None and is_plain_parameter(base) else None


def is_plain_parameter(t: object) -> TypeGuard[nn.Parameter]:
    """Whether it is a parameter of torch's own class, or one without values (a fake tensor) that stands for one."""
    return type(t) is nn.Parameter or (type(t) is FakeTensor and isinstance(t, nn.Parameter))
