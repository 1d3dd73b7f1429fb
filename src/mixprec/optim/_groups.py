"""Replacing parameters in an optimizer and in those that it wraps, with their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer


def substitute(
    optimizer: Optimizer, new: Mapping[Parameter, Parameter], convert: Callable[[Tensor, Parameter], Tensor]
) -> None:
    """Replace parameters in every group, in place and in order, and move their state.

    Tensors of the state that have the old parameter's dtype are converted; step counters are not. An optimizer that
    wraps others (an attribute that is a ``torch.optim.Optimizer``: Lookahead and the like) has them replaced too.
    """
    for owner in owners(optimizer):
        for group in owner.param_groups:
            group["params"][:] = [new.get(p, p) for p in group["params"]]
        for old, param in new.items():
            if old in owner.state:
                owner.state[param] = _converted(owner.state.pop(old), old, param, convert)


def _converted(
    state: dict[str, Any], old: Parameter, param: Parameter, convert: Callable[[Tensor, Parameter], Tensor]
) -> dict[str, Any]:
    return {
        key: convert(value, param)
        if key != "step" and isinstance(value, Tensor) and value.dtype == old.dtype
        else value
        for key, value in state.items()
    }


def owners(optimizer: Optimizer) -> list[Optimizer]:
    """An optimizer and those that it wraps."""
    found = [optimizer]
    for owner in found:  # grows while it is read
        found += [v for v in vars(owner).values() if isinstance(v, Optimizer) and all(v is not o for o in found)]
    return found
