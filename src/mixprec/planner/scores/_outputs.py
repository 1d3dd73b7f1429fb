"""The model's outputs in a measured pass: their gradients tell how many terms the loss has."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch's own; knows the output classes that libraries register

from ._terms import terms_of


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What a loss averages over.

    Attributes:
        terms: tokens, or samples.
        samples: that the terms come from; terms of different ones are independent.
    """

    terms: int
    samples: int


@dataclass(frozen=True)
class _Output:
    terms: int
    samples: int
    size: int


class OutputWatch:
    """Watches what a model returns, and the gradients that come back to it."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._count = model, 0
        self._found: dict[int, _Output] = {}

    def __enter__(self) -> OutputWatch:
        self._handle = self._model.register_forward_hook(self._leave)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._handle.remove()

    def counted(self, terms: int | None) -> Counted:
        """Of the largest output that the loss depends on, summed over the calls; one where there is none.

        Args:
            terms: how many there are, where that was said.
        """
        largest = max((output.size for output in self._found.values()), default=0)
        outputs = [output for output in self._found.values() if output.size == largest]
        seen = sum(output.terms for output in outputs) if terms is None else terms
        return Counted(terms=max(1, seen), samples=max(1, sum(output.samples for output in outputs)))

    def _leave(self, module: nn.Module, args: Any, outputs: Any) -> None:
        for value in pytree.tree_leaves(outputs):
            if isinstance(value, Tensor) and value.requires_grad and value.dim() > 0:
                self._count += 1
                value.register_hook(functools.partial(self._note, self._count))

    def _note(self, index: int, gradient: Tensor) -> None:
        self._found[index] = _Output(terms_of(gradient), gradient.shape[0], gradient.numel())
