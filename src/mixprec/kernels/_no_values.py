"""Tensors that have shapes and no values: of a trace that only asks what a step would allocate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import (
    _disable_current_modes as without_modes,  # pyright: ignore[reportPrivateUsage]  # has no public spelling
)


def has_no_values(x: Tensor) -> bool:
    """Whether a tensor is a fake one, or on the meta device.

    Example:
        >>> import torch
        >>> has_no_values(torch.empty(2, device="meta")), has_no_values(torch.empty(2))
        (True, False)
    """
    return isinstance(x, FakeTensor) or x.device.type == "meta"


def results_into(fake: Callable[..., Any], x: Tensor, args: tuple[Any, ...]) -> Any:
    """What an operation gives for a tensor without values, its carriers in the memory that it was given for them.

    Args:
        fake: the operation's shapes.
        x: without values.
        args: the operation's other arguments; last, where carriers go.
    """
    *given, out = args
    with without_modes():  # what the carriers would have taken is not to be counted
        made = fake(x, *given)
    if isinstance(made, Tensor):
        return out
    pair: tuple[Any, Any] = out if isinstance(out, tuple) else (out, None)
    carriers: dict[int, Any] = {0: pair[0], 2: pair[1]}
    return tuple(part.new_empty(part.shape) if carriers.get(i) is None else carriers[i] for i, part in enumerate(made))
