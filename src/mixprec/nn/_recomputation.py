"""Activation checkpointing around functions of a region: what is recomputed in the backward pass has the region's mode.

A recomputation restores the state of autocast, but no function mode: it would multiply as torch does, and the gradients
would be of another function than the loss. The backward nodes that may start one are therefore given a hook that enters
the mode; the autograd engine gives a thread its own modes back after each node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

#: The node of torch.utils.checkpoint with use_reentrant=True, whose forward pass makes no other nodes.
_REENTRANT = "CheckpointFunctionBackward"
_LEAF = "torch::autograd::AccumulateGrad"
#: A node's own note that it has its hook.
_MARK = "mixprec region"


class Recomputations:
    """The nodes of one region that may start a recomputation.

    Args:
        enter: enters the region's mode on the running thread, unless one is on.
    """

    def __init__(self, enter: Callable[[], None]) -> None:
        self._enter = enter
        self._hooks: object = None
        self._first = 0

    def before(self, args: tuple[Any, ...]) -> None:
        """A function is about to be called."""
        for node in _nodes(args):
            if node.name() == _REENTRANT:
                self._follow(node)
        # With use_reentrant=False whatever is saved goes through hooks, and is made anew where it is needed.
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        unpack = None if hooks is None else hooks[1]
        if unpack is not self._hooks:
            self._hooks = unpack
            self._first = torch.autograd._get_sequence_nr()  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    def after(self, result: Any) -> None:
        """It has been called: of the nodes that the checkpointed part has made so far, each is to have its hook."""
        if self._hooks is None:
            return
        nodes = _nodes((result,))
        while nodes:
            node = nodes.pop()
            if node.name() != _LEAF and node._sequence_nr() >= self._first and self._follow(node):  # pyright: ignore[reportPrivateUsage]
                nodes += [n for n, _ in node.next_functions if n is not None]

    def _follow(self, node: Node) -> bool:
        notes: Any = node.metadata  # a dict, which torch's types take for a method
        if _MARK in notes:
            return False
        notes[_MARK] = True
        node.register_prehook(lambda _: self._enter())
        return True


def _nodes(values: Any) -> list[Node]:
    found: list[Node] = []
    for value in values:
        if isinstance(value, Tensor):
            if value.grad_fn is not None:
                found.append(value.grad_fn)
        elif isinstance(value, (list, tuple)):
            found += _nodes(value)
    return found
