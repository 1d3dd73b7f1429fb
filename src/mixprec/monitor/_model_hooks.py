"""Hooks on a model's modules that tell of its passes, and that a copy of the model does not take along."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

from ..nn import is_in_backward


class ModelHook:
    """A hook that a deep copy of its module, or one that was pickled, keeps without whom it tells: it does nothing.

    Else a copy would hold the watcher, what that has kept of the running step, and the model itself once more.

    Args:
        told: called as the hook is; ``None`` in a copy.

    Example:
        >>> from copy import deepcopy
        >>> model, seen = nn.Linear(1, 1), []
        >>> _ = model.register_forward_pre_hook(ModelHook(lambda module, args: seen.append(module)))
        >>> _ = model(torch.ones(1, 1)), deepcopy(model)(torch.ones(1, 1))
        >>> len(seen)
        1
    """

    def __init__(self, told: Callable[..., None] | None = None) -> None:
        self._told = told

    def __call__(self, *given: object) -> None:
        """The hook."""
        if self._told is not None:
            self._told(*given)

    def __reduce__(self) -> tuple[type[ModelHook], tuple[()]]:
        """How it is copied and pickled."""
        return ModelHook, ()


def is_training_pass(module: nn.Module) -> bool:
    """Whether a call that begins or ends is one of training: none of an evaluation, a recomputation, a compiler's."""
    return not torch.compiler.is_compiling() and module.training and torch.is_grad_enabled() and not is_in_backward()


def called_modules(model: nn.Module) -> Iterator[nn.Module]:
    """What is called from outside: the model, or the parts of a container that has no forward pass of its own."""
    if isinstance(model, nn.ModuleDict | nn.ModuleList):
        for child in model.children():
            yield from called_modules(child)
    else:
        yield model
