"""Hooks on a model's root: its training passes, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from .._model_hooks import ModelHook, called_modules, is_training_pass


class RootHooks:
    """Tells of training passes: not of evaluations, recomputations, or what runs compiled.

    To be put on after all others that watch passes: a pass is told here before it is told to them.

    Args:
        model: the root; of a container without a forward pass, its parts are looked at.
        begins: called before a pass.
        returned: called with what a pass gave; ``is_part``: whether not the model as a whole was called.
    """

    def __init__(self, model: nn.Module, begins: Callable[[], None], returned: Callable[..., None]) -> None:
        self._model, self._begins, self._returned = model, begins, returned
        self._handles: list[RemovableHandle] = []
        for module in called_modules(model):
            self._handles.append(module.register_forward_pre_hook(ModelHook(self._before), prepend=True))
            self._handles.append(module.register_forward_hook(ModelHook(self._after)))

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _before(self, module: nn.Module, args: Any) -> None:
        if is_training_pass(module):
            self._begins()

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_training_pass(module):
            self._returned(output, is_part=module is not self._model)
