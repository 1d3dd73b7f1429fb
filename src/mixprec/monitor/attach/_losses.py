"""The losses of a loop: those that it shows, or else those that its model returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._watches import StepWatches

_NAME = "loss"


class Losses:
    """Keeps the losses of the step under way, and tells of the backward pass of each.

    A model's own loss (``.loss`` of what it returns, as in Hugging Face) counts where the loop shows none; of several
    micro-batches their mean is told then, for such loops divide it outside.

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

    def returned(self, output: Any) -> None:
        """The model has returned something; perhaps with a loss."""
        found = getattr(output, "loss", None)
        if self._is_given or not isinstance(found, Tensor) or found.numel() != 1:
            return
        self._returned.append(found.detach())
        self._begin(found, _NAME)

    def end_backward(self) -> None:
        """The next pass, or the step, begins: that backward pass is over."""
        if self._is_in_backward:
            self._is_in_backward = False
            self._watches.end_backward()

    def take(self) -> list[tuple[str, Tensor]]:
        """Those of the step under way, on their device; begins anew."""
        given, returned = self._given, self._returned
        self._given, self._returned = [], []
        if given or not returned:
            return given
        return [(_NAME, torch.stack([loss.float().reshape(()) for loss in returned]).mean())]

    def _begin(self, loss: Tensor, name: str) -> None:
        self._is_in_backward = True
        self._watches.begin_backward(loss, name, self._scale())
