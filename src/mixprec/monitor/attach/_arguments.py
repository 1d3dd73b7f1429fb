"""What a monitor is given: the model inside of wrappers, optimizers inside of wrappers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer

#: What an optimizer is called that is the only one.
_ONLY = "optimizer"


def check_model(model: object) -> None:
    """Refuse what is no model.

    Raises:
        TypeError: it is not a ``torch.nn.Module``.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"monitor: model is a {type(model).__name__}, expected a torch.nn.Module; the order is monitor(model, "
            "optimizer)"
        )


def innermost(model: nn.Module) -> nn.Module:
    """The model inside of ``DistributedDataParallel``, or of what ``torch.compile`` gives."""
    while True:
        inner: Any = getattr(model, "_orig_mod", None)
        if isinstance(model, DistributedDataParallel | DataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def optimizers_of(model: nn.Module, given: object) -> dict[str, Optimizer]:
    """The optimizers, out of their wrappers, by name: the only one ``"optimizer"``, of a list with their number behind.

    Raises:
        TypeError: something else than optimizers.
        ValueError: one that has no parameter of the model.
    """
    values: dict[Any, Any]
    if given is None:
        values = {}
    elif isinstance(given, Mapping):
        values = dict(cast("Mapping[Any, Any]", given))
    elif isinstance(given, Sequence):
        several = cast("Sequence[Any]", given)
        values = {_ONLY if len(several) == 1 else f"{_ONLY}{i}": value for i, value in enumerate(several)}
    else:
        values = {_ONLY: given}
    found = {str(name): _unwrapped(value) for name, value in values.items()}
    own = {id(p) for p in model.parameters()}
    for optimizer in found.values():
        if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            raise ValueError(
                f"monitor: the {type(optimizer).__name__} has no parameter of the model: give the optimizer that "
                "trains it, made after the model was sharded or moved"
            )
    return found


def _unwrapped(value: Any) -> Optimizer:
    """An optimizer; of Accelerate's wrapper, what it holds."""
    inner = getattr(value, "optimizer", None)
    while isinstance(inner, Optimizer):
        value, inner = inner, getattr(inner, "optimizer", None)
    if not isinstance(value, Optimizer):
        raise TypeError(
            f"monitor: optimizer is a {type(value).__name__}, expected a torch.optim.Optimizer, several, or None"
        )
    return value
