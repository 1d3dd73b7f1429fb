"""The losses of a loop: those that it shows, or else those that its model returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from .._watches import StepWatches

_NAME = "loss"


class Losses:
    """Keeps the losses of the step under way, and tells of the backward pass of each.

    A model's own loss (see ``loss_in``) counts where the loop shows none; of several micro-batches their mean is told
    then, for such loops divide it outside.

    Args:
        watches: are told.
        scale: gives what losses are multiplied by.
    """

    def __init__(self, watches: StepWatches, scale: Callable[[], float]) -> None:
        self._watches, self._scale = watches, scale
        self._given: list[tuple[str, Tensor]] = []
        self._returned: list[Tensor] = []
        self._is_given = self._is_in_backward = False

    def given(self, loss: Tensor, name: str) -> None:
        """The loop shows a loss that it is about to backpropagate."""
        self.end_backward()
        self._is_given = True
        self._given.append((name, loss.detach()))
        self._begin(loss, name)

    def keep_last(self) -> None:
        """Those before were of points that an optimizer has only tried."""
        self._given, self._returned = list(dict(self._given).items()), self._returned[-1:]

    def returned(self, output: Any, *, is_part: bool) -> None:
        """The model, or a part of it that is called by itself, has returned something; perhaps with a loss."""
        found = None if self._is_given else named_loss(output) if is_part else loss_in(output)
        if found is None:
            return
        self._returned.append(found.detach())
        self._begin(found, _NAME)

    def end_backward(self) -> None:
        """The next pass, or the step, begins: that backward pass is over."""
        if self._is_in_backward:
            self._is_in_backward = False
            self._watches.end_backward()

    def take(self) -> list[tuple[str, Tensor]]:
        """Those since the last call, on their device; begins anew."""
        given, returned = self._given, self._returned
        self._given, self._returned = [], []
        if given or not returned:
            return given
        return [(_NAME, torch.stack([loss.float().reshape(()) for loss in returned]).mean())]

    def _begin(self, loss: Tensor, name: str) -> None:
        self._is_in_backward = True
        self._watches.begin_backward(loss, name, self._scale())


def loss_in(output: object) -> Tensor | None:
    """The loss in what a model returns: itself, ``.loss``, the key ``"loss"``, or the first of several; else ``None``.

    As a whole, or as the first of several (what Hugging Face's models give under ``return_dict=False``), it must be a
    tensor without dimensions that has a graph.

    Example:
        >>> loss, logits = torch.ones((), requires_grad=True) * 2, torch.ones(4, 2)
        >>> [loss_in(output) is loss for output in (loss, (loss, logits), {"loss": loss}, (logits, loss))]
        [True, True, True, False]
    """
    named = named_loss(output)
    if named is not None:
        return named
    first = (
        cast("tuple[object, ...] | list[object]", output)[0] if isinstance(output, tuple | list) and output else output
    )
    is_loss = isinstance(first, Tensor) and first.dim() == 0 and first.requires_grad and first.is_floating_point()
    return first if is_loss else None  # pyright: ignore[reportReturnType]  # a tensor


def named_loss(output: object) -> Tensor | None:
    """The loss that a model returns by that name: ``.loss``, or the key ``"loss"``; one number."""
    named = getattr(output, _NAME, None)
    if named is None and isinstance(output, Mapping):
        named = cast("Mapping[object, object]", output).get(_NAME)
    return named if isinstance(named, Tensor) and named.numel() == 1 else None
