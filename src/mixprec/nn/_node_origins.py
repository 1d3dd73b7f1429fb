"""Where the nodes of an autograd graph came from, by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


class NodeOrigins(Generic[T]):
    """What was running when each node of the graph was made, noted by a dispatch mode at every operator.

    Autograd stands before a dispatch mode: the node of the operator that is about to run has just taken its number.
    """

    def __init__(self) -> None:
        self._origins: dict[int, T] = {}

    def note(self, here: Callable[[], T]) -> None:
        """To be called for any operator: the gradients of many that are no products multiply matrices.

        The first operator that shows a number has made its node; one without a node of its own (an ``empty_like``)
        shows that of the one before it.
        """
        number = next_number() - 1
        if number not in self._origins:
            self._origins[number] = here()

    def of_running_node(self) -> T | None:
        """The origin of the node that runs in a backward pass; ``None`` where that is not known."""
        node = torch._C._current_autograd_node()  # pyright: ignore[reportPrivateUsage]  # no public spelling
        number = getattr(node, "_sequence_nr", None)  # none inside a hook, which is no node
        return None if number is None else self._origins.get(number())

    def last_from(self, first: int, number: int) -> T | None:
        """The origin of a node, or, of one without an operator of its own, of the one before it, back to ``first``."""
        return next((self._origins[n] for n in range(number, first - 1, -1) if n in self._origins), None)


def next_number() -> int:
    """The number that the next node of this thread takes."""
    return torch.autograd._get_sequence_nr()  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


def tensors_of(args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The tensors among the arguments, those in lists (a recurrent layer's weights) too."""
    found: list[torch.Tensor] = []
    for arg in args:
        found += [t for t in (arg if isinstance(arg, (list, tuple)) else (arg,)) if isinstance(t, torch.Tensor)]
    return found
