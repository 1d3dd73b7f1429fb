"""Which module is running: a stack of paths kept by hooks on the modules."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

#: What has no module's path: the root, and a backward pass whose forward pass was not seen.
ROOT = "<model>"


class ModuleStack:
    """The paths of the modules of ``model`` whose forward is running, the outermost first.

    Forward calls only, recomputation's included. A module that is not the model's counts to the one that calls it: only
    a global hook would see it, and of those torch's compiler warns. (torch's own tracker also enters modules in the
    backward pass, by hooks on tensors, and stays in one that returns its input, as a dropout of zero does.)
    """

    def __init__(self, model: nn.Module) -> None:
        self._names = {module: name or ROOT for name, module in model.named_modules()}
        self._running: list[nn.Module] = []
        self._handles: list[RemovableHandle] = []

    @property
    def path(self) -> str:
        """The innermost running module's path."""
        return self._names[self._running[-1]] if self._running else ROOT

    def path_of(self, module: nn.Module) -> str | None:
        """A module's path; ``None``: it is not the model's."""
        return self._names.get(module)

    @property
    def running(self) -> nn.Module | None:
        """The innermost running module; ``None`` outside of the model."""
        return self._running[-1] if self._running else None

    def __enter__(self) -> ModuleStack:
        for module in self._names:
            self._handles.append(module.register_forward_pre_hook(self._enter, prepend=True))
            # Called on exceptions too: recomputation leaves a module by one.
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))
        return self

    def __exit__(self, *exc: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._running.clear()

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()
