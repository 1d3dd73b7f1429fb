"""The hooks that tell a recorder of a model's training passes."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from torch import nn
from torch.utils.hooks import RemovableHandle

from .._model_hooks import ModelHook, called_modules, is_training_pass


class PassListener(Protocol):
    """Who is told."""

    def begin_pass(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A training pass of the model begins."""
        ...


def watch_passes(model: nn.Module, listener: PassListener) -> list[RemovableHandle]:
    """Tell a listener, held weakly, of each training pass; what takes the hooks off again."""
    reference = weakref.ref(listener)

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        told = reference() if is_training_pass(module) else None
        if told is not None:
            told.begin_pass(args, kwargs)

    hook = ModelHook(begin)
    return [module.register_forward_pre_hook(hook, with_kwargs=True) for module in called_modules(model)]
