"""What a ``GradScaler`` is told: numbers in order, by the names that the caller knows."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from ...specs import LossScale

LARGEST, SMALLEST = 2.0**127, 2.0**-24


def check_device(device: Any) -> None:
    """Refuse what names no device that torch's autocast has.

    Raises:
        TypeError: no name: the first scale of the old signature, say.
        RuntimeError: a name that torch does not know.
    """
    if not isinstance(device, str):
        raise TypeError(
            f"GradScaler: device is {device!r} ({type(device).__name__}), expected its name, such as 'cuda' or 'cpu'; "
            "a first scale is given as init_scale=...; the signature of torch.cuda.amp is that of "
            "mixprec.compat.torch_cuda_amp"
        )
    try:
        is_known = torch.amp.is_autocast_available(device.partition(":")[0])
    except RuntimeError:
        is_known = False
    if not is_known:
        raise RuntimeError(f"GradScaler: torch has no device {device!r}, expected 'cuda' or 'cpu'")


def rule_of(init_scale: Any, growth_factor: Any, backoff_factor: Any, growth_interval: Any) -> LossScale:
    """The rule of a scaler.

    Raises:
        ValueError: numbers out of order.
        TypeError: no numbers.
    """
    scale = checked_scale("init_scale", init_scale)
    growth, backoff = _number("growth_factor", growth_factor), _number("backoff_factor", backoff_factor)
    if not 1 < growth < math.inf:
        raise ValueError(f"GradScaler: growth_factor is {growth}, expected a finite number above 1")
    if not 0 < backoff < 1:
        raise ValueError(f"GradScaler: backoff_factor is {backoff}, expected a number between 0 and 1")
    if isinstance(growth_interval, bool) or not isinstance(growth_interval, Integral):
        raise TypeError(
            f"GradScaler: growth_interval is {growth_interval!r} ({type(growth_interval).__name__}), expected an "
            "integer, the applied steps up to growth"
        )
    if growth_interval < 1:
        raise ValueError(f"GradScaler: growth_interval is {growth_interval}, expected 1 or more")
    return LossScale(
        kind="dynamic",
        initial=scale,
        growth=growth,
        backoff=backoff,
        interval=int(growth_interval),
        minimum=min(SMALLEST, scale),
        maximum=LARGEST,
    )


def checked_scale(name: str, value: Any) -> float:
    """A scale that a run can use.

    Raises:
        ValueError: it is out of range, or a tensor of another form.
        TypeError: no number.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.requires_grad:
            raise ValueError(
                f"GradScaler: {name} is a tensor of shape {list(value.shape)} with "
                f"requires_grad={value.requires_grad}, expected one number without a graph"
            )
        value = value.item()
    scale = _number(name, value)
    if not (math.isfinite(scale) and 0 < scale <= LARGEST):
        raise ValueError(
            f"GradScaler: {name} is {scale}, expected a finite number above 0 and at most 2^127: with such a scale "
            "every gradient is zero or not finite; start a new GradScaler instead"
        )
    return scale


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"GradScaler: {name} is {value!r} ({type(value).__name__}), expected a number")
    return float(value)
