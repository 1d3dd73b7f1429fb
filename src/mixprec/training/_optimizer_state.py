"""The state of an optimizer as it was saved, to the dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..optim import SGD, AdamW
from ._full_weights import EXTRA_KINDS


def load_optimizer_state(optimizer: Optimizer, state: Mapping[str, Any], *, convert: bool) -> None:
    """Continue from a saved ``state_dict``.

    Torch's own loading casts every floating tensor of the state to its parameter's dtype, moments of another width
    too; those are given back as they were saved.

    Args:
        optimizer: of the same class and groups.
        state: that was saved.
        convert: whether moments that are kept otherwise here are converted.

    Raises:
        ValueError: groups of other sizes, or a state of another optimizer.
    """
    load: Callable[..., None] = optimizer.load_state_dict
    if isinstance(optimizer, AdamW | SGD):
        load(_without_extras(state) if convert else state, convert=convert)
        return
    load(dict(state))
    if convert:
        return
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for index, saved in state["state"].items():
        own = optimizer.state[params[index]]
        for name, value in saved.items():
            if isinstance(value, Tensor) and isinstance(own.get(name), Tensor) and own[name].dtype != value.dtype:
                own[name] = value.to(own[name].device, copy=True)


def _without_extras(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what lies beside weights, which the session's state has too, and converts by itself."""
    return {
        **state,
        "state": {
            key: {name: value for name, value in entry.items() if name not in EXTRA_KINDS}
            for key, entry in state["state"].items()
        },
    }
