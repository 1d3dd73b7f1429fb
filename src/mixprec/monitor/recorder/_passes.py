"""The hook that sees a model's training passes begin."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle


class PassListener(Protocol):
    """Who is told."""

    def begin_pass(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A training pass of the model begins."""
        ...


class PassHook:
    """Tells a listener of each training pass, and nothing of evaluations or of what is compiled.

    On the model, or, where that is a list or a dictionary of modules, on its parts. A copy of the model, or one that
    was pickled, tells nobody.

    Args:
        listener: held weakly; none for a copy.
    """

    def __init__(self, listener: PassListener | None = None) -> None:
        self._listener = (lambda: None) if listener is None else weakref.ref(listener)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The hook."""
        if torch.compiler.is_compiling() or not module.training or not torch.is_grad_enabled():
            return
        listener = self._listener()
        if listener is not None:
            listener.begin_pass(args, kwargs)

    def __reduce__(self) -> tuple[type[PassHook], tuple[()]]:
        """How it is copied and pickled: without its listener."""
        return PassHook, ()


def watch_passes(model: nn.Module, listener: PassListener) -> list[RemovableHandle]:
    """Put the hook on a model; what takes it off again."""
    hook = PassHook(listener)
    return [module.register_forward_pre_hook(hook, with_kwargs=True) for module in _called(model)]


def _called(model: nn.Module) -> Iterator[nn.Module]:
    """What is called from outside: the model, or the parts of a container that has no forward pass of its own."""
    if isinstance(model, nn.ModuleDict | nn.ModuleList):
        for child in model.children():
            yield from _called(child)
    else:
        yield model
