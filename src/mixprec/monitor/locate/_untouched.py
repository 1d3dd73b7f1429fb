"""A pass that leaves no trace: whatever it changes is brought back, also when it raises."""

# A module's own tables and hooks have no public spelling.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...nn import Conversion
from .._random_states import load_random_states, random_states

#: Where watchers live: their hooks on modules hear nothing of such a pass.
_WATCHERS = ("mixprec.monitor", "mixprec.training")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")
_FINISHERS = "_post_accumulate_grad_hooks"


@contextmanager
def untouched(
    model: nn.Module,
    conversion: Conversion | None,
    casts: tuple[Tensor, Mapping[str, Tensor]] | None,
    buffers: Mapping[tuple[str, str], Tensor] | None = None,
) -> Generator[None]:
    """Inside, passes of ``model`` change nothing that is there afterwards.

    Kept: gradients (there are none inside), buffers (inside, copies), random states, position and histories of a
    conversion's casts, hooks that run when a gradient is ready (none run), watchers' hooks (none run).

    Args:
        model: the root.
        conversion: of it, or ``None``.
        casts: random state and histories that the conversion's passes begin with; ``None``: as they are.
        buffers: values that they begin with, by module and name; others as they are.
    """
    states = random_states()
    with ExitStack() as stack:
        stack.callback(load_random_states, states)
        stack.enter_context(_own_buffers(model, buffers or {}))
        stack.enter_context(_own_gradients(model))
        stack.enter_context(_without_watchers(model))
        if conversion is not None:
            random, histories = casts or (conversion.random_state(), conversion.histories())
            stack.enter_context(conversion.aside(random, histories))
        yield


@contextmanager
def _own_buffers(model: nn.Module, values: Mapping[tuple[str, str], Tensor]) -> Generator[None]:
    before = {(path, name): b for path, module in model.named_modules() for name, b in module._buffers.items()}
    modules = dict(model.named_modules())
    copies: dict[int, Tensor] = {}  # a buffer of two modules stays one
    for key, buffer in before.items():
        if buffer is not None:
            value = values.get(key, buffer)
            modules[key[0]]._buffers[key[1]] = copies.setdefault(id(buffer), value.detach().clone())
    try:
        yield
    finally:
        for (path, name), buffer in before.items():
            modules[path]._buffers[name] = buffer


@contextmanager
def _own_gradients(model: nn.Module) -> Generator[None]:
    parameters = list(model.parameters())
    before = [(p, p.grad, getattr(p, _FINISHERS, None)) for p in parameters]
    for p in parameters:
        p.grad = None
        if getattr(p, _FINISHERS, None):
            setattr(p, _FINISHERS, OrderedDict[int, Any]())
    try:
        yield
    finally:
        for p, gradient, finishers in before:
            p.grad = gradient
            if finishers:
                setattr(p, _FINISHERS, finishers)


@contextmanager
def _without_watchers(model: nn.Module) -> Generator[None]:
    before: list[tuple[Any, list[tuple[int, Any]]]] = []
    for module in model.modules():
        for name in _HOOKS:
            hooks = getattr(module, name)
            if any(map(_is_watcher, hooks.values())):
                before.append((hooks, list(hooks.items())))
    for hooks, items in before:
        for key, hook in items:
            if _is_watcher(hook):
                del hooks[key]
    try:
        yield
    finally:
        for hooks, items in before:
            later = [(key, hook) for key, hook in hooks.items() if key not in dict(items)]
            hooks.clear()
            hooks.update([*items, *later])


def _is_watcher(hook: Any) -> bool:
    owner = getattr(hook, "__self__", hook)
    module = getattr(owner, "__module__", None) or type(owner).__module__
    return str(module).startswith(_WATCHERS)


@torch.no_grad()
def detached(value: object) -> object:
    """An argument without the graph that made it; one that a gradient was wanted of still is."""
    if not isinstance(value, Tensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)
