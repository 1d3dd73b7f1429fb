"""Hooks on a model's root: its training passes, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from .._model_hooks import ModelHook, is_training_pass


class RootHooks:
    """Tells of training passes: not of evaluations, recomputations, or what runs compiled.

    Args:
        model: the root.
        begins: called before a pass.
        returned: called with what a pass gave.
    """

    def __init__(self, model: nn.Module, begins: Callable[[], None], returned: Callable[[Any], None]) -> None:
        self._begins, self._returned = begins, returned
        self._handles: list[RemovableHandle] = [
            model.register_forward_pre_hook(ModelHook(self._before), prepend=True),
            model.register_forward_hook(ModelHook(self._after)),
        ]

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _before(self, module: nn.Module, args: Any) -> None:
        if is_training_pass(module):
            self._begins()

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_training_pass(module):
            self._returned(output)
