"""The model's outputs in a measured pass: their gradients tell how many terms the loss has."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch's own; knows the output classes that libraries register

from ._terms import terms_of


class OutputWatch:
    """Watches what a model returns, and the gradients that come back to it."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._count = model, 0
        self._found: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> OutputWatch:
        self._handle = self._model.register_forward_hook(self._leave)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._handle.remove()

    def terms(self) -> int:
        """Of the largest output that the loss depends on, summed over the calls; 1 where there is none."""
        largest = max((size for _, size in self._found.values()), default=0)
        return max(1, sum(count for count, size in self._found.values() if size == largest))

    def _leave(self, module: nn.Module, args: Any, outputs: Any) -> None:
        for value in pytree.tree_leaves(outputs):
            if isinstance(value, Tensor) and value.requires_grad and value.dim() > 0:
                self._count += 1
                value.register_hook(functools.partial(self._note, self._count))

    def _note(self, index: int, gradient: Tensor) -> None:
        self._found[index] = terms_of(gradient), gradient.numel()
