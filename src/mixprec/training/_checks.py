"""What an optimizer must be before a session takes it; each refusal says what to do."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from numbers import Real

from torch import Tensor, nn
from torch.optim import Optimizer


def check_model(model: object) -> None:
    """Refuse what is no model.

    Raises:
        TypeError: it is not a ``torch.nn.Module``.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"prepare: model is a {type(model).__name__}, expected a torch.nn.Module; the order is prepare(model, "
            "optimizer)"
        )


def check_integer(name: str, value: object, *, least: int | None = None, bits: int | None = None) -> None:
    """Refuse an argument that is no integer, too small, or beyond so many bits with a sign.

    Raises:
        TypeError: no integer.
        ValueError: less than ``least``, or too long.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"prepare: {name} is {value!r} ({type(value).__name__}), expected an integer")
    if least is not None and value < least:
        raise ValueError(f"prepare: {name} is {value}, expected {least} or more")
    if bits is not None and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"prepare: {name} is {value}, expected an integer of {bits} bits")


def check_optimizer(model: nn.Module, optimizer: object) -> Optimizer:
    """Refuse what a session cannot step.

    Raises:
        TypeError: not a ``torch.optim.Optimizer``.
        ValueError: several optimizers; one without parameters, with parameters that are not the model's, or whose
            step needs a closure.
    """
    if isinstance(optimizer, Mapping | Sequence):
        raise ValueError(
            f"prepare: got {len(optimizer)} optimizers, expected one: several in one session are not supported yet; "
            "use one optimizer with several parameter groups"
        )
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"prepare: optimizer is a {type(optimizer).__name__}, expected a torch.optim.Optimizer; the order is "
            "prepare(model, optimizer)"
        )
    if _needs_closure(optimizer):
        raise ValueError(
            f"prepare: {type(optimizer).__name__}.step needs a closure, which evaluates the loss several times in one "
            "step: a loss scale and skipped steps have no meaning there; use an optimizer whose step needs none"
        )
    _check_parameters(model, optimizer)
    return optimizer


def _needs_closure(optimizer: Optimizer) -> bool:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _check_parameters(model: nn.Module, optimizer: Optimizer) -> None:
    params: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
    if not params:
        raise ValueError("prepare: the optimizer has no parameters: build it from model.parameters()")
    own = {id(p) for p in model.parameters()}
    foreign = [p for p in params if id(p) not in own]
    if foreign:
        shapes = ", ".join(str(list(p.shape)) for p in foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ValueError(
            f"prepare: {len(foreign)} of the optimizer's {len(params)} parameters are not the model's (shapes "
            f"{shapes}): build the optimizer from this model's parameters, after sharding or copying it; an optimizer "
            "that was prepared before holds masters until session.restore()"
        )


def check_clip_norm(clip_norm: object) -> None:
    """Refuse a clip norm that would stop or turn the weights.

    Raises:
        TypeError: it is no number.
        ValueError: it is not above 0.
    """
    if clip_norm is None:
        return
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, Real):
        raise TypeError(
            f"prepare: clip_norm is {clip_norm!r} ({type(clip_norm).__name__}), expected a number above 0, or None"
        )
    if not (float(clip_norm) > 0 and math.isfinite(clip_norm)):
        raise ValueError(f"prepare: clip_norm is {clip_norm}, expected a finite number above 0, or None")


def check_loss(loss: object) -> Tensor:
    """Refuse what cannot be backpropagated.

    Raises:
        TypeError: not a tensor.
        ValueError: not one number, or without a graph.
    """
    if callable(loss) and not isinstance(loss, Tensor):
        raise ValueError(
            "step: closures are not supported: compute the loss, then call session.step(loss), or "
            "session.backward(loss) for each part and session.step()"
        )
    if not isinstance(loss, Tensor):
        raise TypeError(f"backward: the loss is a {type(loss).__name__}, expected a tensor (before .item())")
    if loss.numel() != 1:
        raise ValueError(f"backward: the loss has shape {list(loss.shape)}, expected one number: use loss.mean()")
    if not loss.requires_grad:
        raise ValueError(
            "backward: the loss has no graph: it was computed under no_grad, detached, or from frozen parameters only"
        )
    return loss
