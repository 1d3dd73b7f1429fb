"""Options of this package's optimizers: those that they share, and those of torch's that are refused in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import c_float
from typing import Any, TypedDict, get_args

from torch import Tensor

from ..formats import unknown_name
from ..specs import Moments, Weights, parse_moments

_WEIGHTS = get_args(Weights)
# What torch's optimizers take beside: the values that change nothing here, and why others are refused.
_NEUTRAL: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "amsgrad": ((False,), "a running maximum of the second moment is not kept: use torch.optim.AdamW"),
    "foreach": ((None, False), "all parameters of a group are stepped by one kernel already: leave it out"),
    "fused": ((None, True), "the step is always fused: leave it out"),
    "capturable": ((False,), "step counters lie on the CPU, so that the step cannot be part of a CUDA graph"),
    "differentiable": ((False,), "autograd does not go through the step: use torch.optim"),
}


class SharedOptions(TypedDict, total=False):
    """Options of every optimizer of this package.

    Attributes:
        maximize: whether the objective is maximized.
        weights: how 16-bit parameters are kept; ``None``: as the session's recipe says, else ``"master"``.
        moments: how moments are kept, or the kind's name; ``None``: as the session's recipe says, else fp32.
        seed: of stochastic rounding; ``prepare`` gives its own.
        amsgrad: torch's, at its default only; so are those that follow.
        foreach: see there.
        fused: see there.
        capturable: see there.
        differentiable: see there.
    """

    maximize: bool
    weights: Weights | None
    moments: Moments | str | None
    seed: int
    amsgrad: bool
    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


def shared_defaults(who: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of a group from the options that were given.

    Raises:
        ValueError: an option that is not offered.
        TypeError: an option that nobody knows.
    """
    for name, value in options.items():
        if name not in SharedOptions.__annotations__:
            raise TypeError(str(unknown_name(f"option of mixprec.optim.{who}", name, SharedOptions.__annotations__)))
        refuse_option(who, name, value)
    moments = options.get("moments")
    return {
        "maximize": options.get("maximize", False),
        "weights": options.get("weights"),
        "moments": None if moments is None else parse_moments(moments),
        "seed": options.get("seed", 0),
    }


def refuse_option(who: str, name: str, value: Any) -> None:
    """Raise a ``ValueError`` for an option of torch's that would change the update."""
    neutral, reason = _NEUTRAL.get(name, ((value,), ""))
    if value not in neutral:
        raise ValueError(f"mixprec.optim.{who} has no {name}={value!r}: {reason}")


def is_torch_only(name: str) -> bool:
    """Whether an option is one of torch's that this package's optimizers do not keep."""
    return name in _NEUTRAL


def check_shared(who: str, group: Mapping[str, Any]) -> None:
    """Refuse values of the shared options that cannot be."""
    if group["weights"] is not None and group["weights"] not in _WEIGHTS:
        raise unknown_name("way to keep weights", group["weights"], _WEIGHTS)
    if group["moments"] is not None and not isinstance(group["moments"], Moments):
        raise ValueError(
            f"mixprec.optim.{who}: moments is {group['moments']!r} in a group, expected Moments, e.g. "
            "Moments(kind='bf16')"
        )
    check_least(who, "lr", group["lr"])
    check_least(who, "weight_decay", group["weight_decay"])


def check_least(who: str, name: str, value: float | Tensor) -> None:
    """Refuse a number that is negative, not finite, or no number of one element."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"mixprec.optim.{who}: {name} is a tensor of shape {list(value.shape)}, expected one number")
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"mixprec.optim.{who}: {name} is {float(value)}, expected a finite number, 0 or more")


def fp32(value: float) -> float:
    """A number rounded once to fp32, ties to even."""
    return c_float(float(value)).value  # a tenth of the time that a tensor takes
