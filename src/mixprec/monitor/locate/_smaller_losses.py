"""Backward passes that begin with a smaller gradient, as if the loss were multiplied by less."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class SmallerLosses(TorchFunctionMode):
    """Inside, ``loss.backward()`` begins with 1 / ``divisor``.

    Attributes:
        is_done: whether any backward pass began so; one of ``torch.autograd.backward`` does not.
    """

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.is_done, self._divisor = False, divisor

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.backward and args:
            self.is_done = True
            loss, *rest = args
            gradient = rest.pop(0) if rest else kwargs.pop("gradient", None)
            gradient = torch.ones_like(loss) if gradient is None else gradient
            args = (loss, gradient / self._divisor, *rest)
        return func(*args, **kwargs)
