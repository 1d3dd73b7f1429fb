"""Hooks on a model's root: its training passes, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle


class RootHooks:
    """Tells of training passes: not of evaluations, recomputations, or what runs compiled.

    Args:
        model: the root.
        begins: called before a pass.
        returned: called with what a pass gave.
    """

    def __init__(self, model: nn.Module, begins: Callable[[], None], returned: Callable[[Any], None]) -> None:
        self._handles: list[RemovableHandle] = [
            model.register_forward_pre_hook(_BeforePass(begins), prepend=True),
            model.register_forward_hook(_AfterPass(returned)),
        ]

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()


class _Hook:
    """A copy of a hook, or one that was pickled with its model, tells nobody."""

    def __init__(self, told: Callable[..., None] | None = None) -> None:
        self._told = told

    def __reduce__(self) -> tuple[type[_Hook], tuple[()]]:
        return type(self), ()


class _BeforePass(_Hook):
    def __call__(self, module: nn.Module, args: Any) -> None:
        if self._told is not None and _is_training(module):
            self._told()


class _AfterPass(_Hook):
    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._told is not None and _is_training(module):
            self._told(output)


def _is_training(module: nn.Module) -> bool:
    is_compiling = torch.compiler.is_compiling()
    return not is_compiling and module.training and torch.is_grad_enabled() and not _is_in_backward()


def _is_in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]  # as torch.utils.checkpoint asks
