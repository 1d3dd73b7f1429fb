"""What the arguments of a session must be; each refusal says what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real

from torch import Tensor, nn

from ..monitor import Monitoring


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


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that there are not.

    Raises:
        TypeError: naming the first.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"prepare() got an unexpected keyword argument '{name}'; further ones are {', '.join(names)}"
            )


def check_monitoring(monitor: object) -> Monitoring | None:
    """Refuse what says nothing of what is to be watched.

    Raises:
        TypeError: neither a ``Monitoring`` nor ``None``.
    """
    if monitor is not None and not isinstance(monitor, Monitoring):
        raise TypeError(
            f"prepare: monitor is {monitor!r} ({type(monitor).__name__}), expected a mixprec.monitor.Monitoring, e.g. "
            "Monitoring(every=100), or None to watch nothing"
        )
    return monitor


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
