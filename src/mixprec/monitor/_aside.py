"""A step that leaves nothing behind: gradients, buffers, attributes, random states and hooks are given back."""

# What a parameter and a module hold is put back as it was, hooks on gradients included.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..nn import Conversion, passes_aside
from ._random_states import load_random_states, random_states

_LIBRARY = __name__.partition(".")[0]
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


@contextmanager
def everything_aside(
    model: nn.Module,
    conversion: Conversion | None,
    casts: tuple[Tensor, Mapping[str, Tensor]] | None = None,
    buffers: Mapping[tuple[str, str], Tensor] | None = None,
) -> Generator[Mapping[str, Tensor]]:
    """Inside, a step may run; afterwards all is as it was before, the objects themselves.

    Buffers are copies inside, so that what else holds the buffers themselves sees no change.

    Args:
        model: the root.
        conversion: of it, or ``None``.
        casts: random state and histories that the conversion's passes begin with; ``None``: as they are.
        buffers: values that they begin with, by module path and name; others as they are.

    Yields:
        The copies of the buffers, by name.
    """
    with ExitStack() as stack:
        stack.enter_context(_random_aside())
        stack.enter_context(_gradients_aside(model))
        stack.enter_context(_watchers_aside(model))
        if conversion is not None:
            stack.enter_context(passes_aside(conversion, casts))
        copies = stack.enter_context(_modules_aside(model, buffers or {}))
        no_sync = getattr(model, "no_sync", None)
        if callable(no_sync):
            stack.enter_context(no_sync())  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
        for module in model.modules():
            if isinstance(module, DistributedDataParallel):
                # Its passes inside talk to no other rank: no gradients, and no buffers, which would be written too.
                module.require_backward_grad_sync = module.require_forward_param_sync = False
        yield copies


@contextmanager
def _random_aside() -> Generator[None]:
    states = random_states()
    try:
        yield
    finally:
        load_random_states(states)


@contextmanager
def _gradients_aside(model: nn.Module) -> Generator[None]:
    """No gradients inside, and no hooks that wait for one (an optimizer that steps in the backward pass)."""
    held: list[tuple[nn.Parameter, Tensor | None, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a parameter that is no leaf says so when its gradient is read
        for p in model.parameters():
            hooks = getattr(p, "_post_accumulate_grad_hooks", None)
            held.append((p, p.grad, hooks))
            p.grad = None
            if hooks:
                p._post_accumulate_grad_hooks = type(hooks)()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for p, grad, hooks in held:
            p.grad = grad
            if hooks:
                p._post_accumulate_grad_hooks = hooks  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def _watchers_aside(model: nn.Module) -> Generator[None]:
    """No hooks of this library inside: those who watch training see no pass of it. The user's own hooks run."""
    before: list[tuple[Any, dict[Any, Any]]] = []
    for module in model.modules():
        for table in (getattr(module, name) for name in _HOOKS):
            own = [key for key, hook in table.items() if _is_own(hook)]
            if own:
                before.append((table, dict(table)))
                for key in own:
                    del table[key]
    try:
        yield
    finally:
        for table, hooks in before:
            table.clear()
            table.update(hooks)


def _is_own(hook: Any) -> bool:
    """Whether a hook is this library's: one of its functions, or of its objects."""
    hook = hook.func if isinstance(hook, functools.partial) else hook
    owner = getattr(hook, "__self__", None)
    holder = hook if inspect.isfunction(hook) else type(hook if owner is None else owner)
    return str(holder.__module__).partition(".")[0] == _LIBRARY


@contextmanager
def _modules_aside(model: nn.Module, values: Mapping[tuple[str, str], Tensor]) -> Generator[Mapping[str, Tensor]]:
    """Copies of the buffers in the modules; afterwards the modules hold what they held."""
    modules = dict(model.named_modules())
    attributes = {name: dict(module.__dict__) for name, module in modules.items()}
    tables = {name: dict(module._buffers) for name, module in modules.items()}
    copies: dict[int, Tensor] = {}
    named: dict[str, Tensor] = {}
    for name, module in modules.items():
        for key, buffer in module._buffers.items():
            if buffer is not None:
                # A buffer that several modules hold stays one.
                copy = copies.setdefault(id(buffer), values.get((name, key), buffer).detach().clone())
                module._buffers[key] = named[f"{name}.{key}".lstrip(".")] = copy
    try:
        yield named
    finally:
        for name, module in modules.items():
            module._buffers.clear()
            module._buffers.update(tables[name])
            for key in [key for key in module.__dict__ if key not in attributes[name]]:
                del module.__dict__[key]
            module.__dict__.update(attributes[name])
