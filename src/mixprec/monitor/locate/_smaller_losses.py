"""Backward passes that begin with a smaller gradient, as if the loss were multiplied by less."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ._range import is_finite, is_measured, tensor_leaves


class SmallerLosses(TorchFunctionMode):
    """Inside, ``loss.backward()`` and ``torch.autograd.backward(losses)`` begin with 1 / ``divisor``.

    Attributes:
        is_done: whether any backward pass began so. One that torch does not tell a mode of does not: from a
            ``GradientEdge``, and in versions of torch that tell of ``loss.backward()`` alone.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with SmallerLosses(4.0) as smaller:
        ...     torch.autograd.backward((3.0 * x).sum())
        >>> x.grad, smaller.is_done
        (tensor([0.7500, 0.7500]), True)
    """

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.is_done, self._divisor = False, divisor

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (Tensor.backward, torch.autograd.backward) and args:
            self.is_done = True
            key = "gradient" if func is Tensor.backward else "grad_tensors"
            begun, *rest = args
            given = rest.pop(0) if rest else kwargs.pop(key, None)
            return func(begun, self._smaller(begun, given), *rest, **kwargs)
        return func(*args, **kwargs)

    def _smaller(self, begun: Tensor | Sequence[Tensor], given: Any) -> Any:
        """What the pass begins with, in the form that torch takes it in."""
        if isinstance(begun, Tensor):
            given = given[0] if isinstance(given, Sequence) else given
            return (torch.ones_like(begun) if given is None else given) / self._divisor
        given = [given] if isinstance(given, Tensor) else given or [None] * len(begun)
        return [self._smaller(x, gradient) for x, gradient in zip(begun, given, strict=True)]


class SmallerPass:
    """Inside, losses are smaller, or else the gradients of the model's outputs.

    Args:
        model: the root.
        divisor: of what the backward pass begins with.

    Attributes:
        is_void: whether a gradient of an output was not finite already, and nothing had made the loss smaller: what
            lies between the two was not tried.
    """

    def __init__(self, model: nn.Module, divisor: float) -> None:
        self.is_void = False
        self._model, self._divisor, self._losses = model, divisor, SmallerLosses(divisor)

    def __enter__(self) -> None:
        self._handle = self._model.register_forward_hook(self._see_outputs)
        self._losses.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._losses.__exit__(kind, error, trace)
        self._handle.remove()

    def _see_outputs(self, module: nn.Module, args: Any, output: Any) -> None:
        for x in tensor_leaves(output):
            if x.requires_grad:
                x.register_hook(self._shrink)

    def _shrink(self, gradient: Tensor) -> Tensor:
        if self._losses.is_done:
            return gradient
        self.is_void |= is_measured(gradient) and not is_finite(gradient)
        return gradient / self._divisor
