"""What a node of the autograd graph came from: noted while the forward pass makes it, asked for while it runs."""

# Nodes, their numbers and which of them runs have no public spelling.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class NodeOrigins(Generic[T]):
    """Origins of nodes by their sequence numbers; to be told of every operator that a dispatch mode sees."""

    def __init__(self) -> None:
        self._origins: dict[int, T] = {}

    def note(self, args: tuple[Any, ...], origin: Callable[[], T]) -> None:
        """An operator is about to run; its node, if it has one, has just taken its number.

        The first operator that shows a number has made its node. One without a node of its own (an ``empty_like``)
        shows that of the one before it, which it must not take.
        """
        number = next_number() - 1
        if number not in self._origins:
            self._origins[number] = origin()

    def of_running(self) -> T | None:
        """That of the node that runs; ``None`` inside a hook, which is no node, and where nothing was noted."""
        number = running_number()
        return None if number is None else self._origins.get(number)

    def of(self, node: Any, first: int = 0) -> T | None:
        """That of a node, or of its number; one of no operator of its own was made with the one before it.

        Args:
            node: or its number.
            first: the smallest number that may answer.
        """
        number = node if isinstance(node, int) else node._sequence_nr()
        return next((self._origins[n] for n in range(number, first - 1, -1) if n in self._origins), None)


def next_number() -> int:
    """The number that this thread's next node takes."""
    return torch.autograd._get_sequence_nr()


def running_number() -> int | None:
    """The number of the node that runs; ``None`` inside a hook, which is no node, and outside of a backward pass."""
    number = getattr(torch._C._current_autograd_node(), "_sequence_nr", None)
    return None if number is None else number()


def tensors_of(args: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among the arguments, those in lists (a recurrent layer's weights) too."""
    found: list[Tensor] = []
    for arg in args:
        found += [t for t in (arg if isinstance(arg, (list, tuple)) else (arg,)) if isinstance(t, Tensor)]
    return found
