"""Which module is running: a stack of paths kept by global hooks."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

#: What has no module's path: the root, and a backward pass whose forward pass was not seen.
ROOT = "<model>"


class ModuleStack:
    """The paths of the modules of ``model`` whose forward is running, the outermost first.

    Forward calls only, recomputation's included. (torch's own tracker also enters modules in the backward pass, by
    hooks on tensors, and stays in one that returns its input, as a dropout of zero does.)
    """

    def __init__(self, model: nn.Module) -> None:
        self._names = {module: name or ROOT for name, module in model.named_modules()}
        self._running: list[nn.Module] = []
        self._handles: list[RemovableHandle] = []

    @property
    def path(self) -> str:
        """The innermost running module's path; a class name for a module that is not the model's."""
        if not self._running:
            return ROOT
        module = self._running[-1]
        return self._names.get(module, type(module).__name__)

    def __enter__(self) -> ModuleStack:
        # Called on exceptions too: recomputation leaves a module by one.
        leave = register_module_forward_hook(self._leave, always_call=True)
        self._handles = [register_module_forward_pre_hook(self._enter), leave]
        return self

    def __exit__(self, *exc: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._running.clear()

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()
