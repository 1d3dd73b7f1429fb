"""The model's outputs in a measured pass: their gradients tell how many terms the loss has, and of which kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
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


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a model returned, and what the loss says of it.

    Attributes:
        values: the largest outputs that the loss depends on, one a call of the model.
        gradients: of the loss with respect to them.
        counted: what the loss averages over.
    """

    values: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    counted: Counted


class OutputWatch:
    """Watches what a model returns."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._found: list[Tensor] = []

    def __enter__(self) -> OutputWatch:
        self._handle = self._model.register_forward_hook(self._leave)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._handle.remove()

    def outputs(self, loss: Tensor, terms: int | None) -> Outputs:
        """Of the largest output that the loss depends on; without any the loss counts as one term.

        Args:
            loss: computed from what was returned.
            terms: how many it averages over, where that was said.
        """
        gradients = _gradients(loss, self._found)
        pairs = [(z, g) for z, g in zip(self._found, gradients, strict=True) if g is not None]
        largest = max((z.numel() for z, _ in pairs), default=0)
        pairs = [(z, g) for z, g in pairs if z.numel() == largest]
        seen = sum(terms_of(g) for _, g in pairs) if terms is None else terms
        samples = sum(z.shape[0] for z, _ in pairs)
        return Outputs(
            values=tuple(z for z, _ in pairs),
            gradients=tuple(g for _, g in pairs),
            counted=Counted(terms=max(1, seen), samples=max(1, samples)),
        )

    def _leave(self, module: nn.Module, args: Any, outputs: Any) -> None:
        leaves = pytree.tree_leaves(outputs)
        self._found += [x for x in leaves if isinstance(x, Tensor) and x.requires_grad and x.dim() > 0]


def _gradients(loss: Tensor, outputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Of the loss with respect to each; ``None`` where it does not depend on one."""
    return torch.autograd.grad(loss, outputs, retain_graph=True, allow_unused=True) if outputs else ()
