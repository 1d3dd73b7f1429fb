"""Modules that nothing has converted, seen through hooks that are on for the sampled step alone.

Plain layers of torch, quantized ones of torchao, modules of Transformer Engine: what goes in, what comes out, the
weight, and the gradient of the output.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...nn import is_converted_layer
from .._model_hooks import called_modules, is_training_pass
from ._gatherer import Gatherer

#: Modules without a weight of that name that are worth a look all the same.
_LEAVES = (nn.RNNBase, nn.MultiheadAttention, nn.Softmax, nn.LogSoftmax, nn.Sigmoid)
_ENGINE = "transformer_engine"
_WEIGHT = "weight"


class PlainModules:
    """Shows a gatherer the tensors of plain modules, between ``watch`` and ``leave``.

    Args:
        model: the root; its modules are looked through at each ``watch``.
        gatherer: is shown the tensors.
        weights: whether it is shown weights.

    Attributes:
        layers: how many are looked at.
        passes: of the model, that were seen since ``watch``.
    """

    def __init__(self, model: nn.Module, gatherer: Gatherer, *, weights: bool) -> None:
        self._model, self.gatherer, self._weights = model, gatherer, weights
        self._handles: list[RemovableHandle] = []
        self.layers = self.passes = 0

    def watch(self) -> None:
        """Put the hooks on."""
        self.leave()
        self.layers = self.passes = 0
        for module in called_modules(self._model):
            self._handles.append(module.register_forward_hook(_PassHook("", self)))
        for name, module in self._model.named_modules():
            if is_leaf(module) and self.gatherer.wants(name):
                hook = _ModuleHook(name, self)
                self._handles.append(module.register_forward_hook(hook, with_kwargs=True))
                self.layers += 1

    def leave(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def called(self, site: str, module: nn.Module, inputs: Tensor | None, output: Tensor | None) -> None:
        """A module has run."""
        gatherer = self.gatherer
        gatherer.operands += 1
        if inputs is not None:
            gatherer.tensor(site, "input", _plain(inputs))
        if output is not None:
            gatherer.tensor(site, "output", _plain(output))
            if output.requires_grad and not gatherer.has(site, "grad_output"):
                output.register_hook(_GradientHook(site, self))
        for name, weight in _weights(module) if self._weights else ():
            gatherer.tensor(f"{site}.{name}".rstrip("."), "weight", weight)

    @property
    def is_watching(self) -> bool:
        """Whether the hooks are on."""
        return bool(self._handles)


def is_leaf(module: nn.Module) -> bool:
    """Whether a plain module is looked at: it has a weight, or is of a kind that is worth it."""
    if is_converted_layer(module):
        return False
    if isinstance(module, _LEAVES):
        return True
    if _is_engine(module):
        return any(True for _ in _weights(module))
    return isinstance(getattr(module, _WEIGHT, None), Tensor)


def _is_engine(module: nn.Module) -> bool:
    return any(base.__module__.partition(".")[0] == _ENGINE for base in type(module).__mro__)


def _weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights with what their names say beside ``weight``: ``fc1_weight`` of Transformer Engine is ``fc1``."""
    names = [name for name, _ in module.named_parameters(recurse=False) if name.endswith(_WEIGHT)]
    if not names and isinstance(getattr(module, _WEIGHT, None), Tensor):
        names = [_WEIGHT]  # parametrized, or packed
    for name in names:
        weight = _plain(getattr(module, name))
        yield name.removesuffix(_WEIGHT).rstrip("_"), weight


def _plain(t: Tensor) -> Tensor:
    """The values of a tensor: this rank's part of a sharded one, a quantized one's dequantized."""
    t = t.detach()
    if hasattr(t, "to_local"):
        t = t.to_local()  # pyright: ignore[reportAttributeAccessIssue]
    if type(t) not in (Tensor, nn.Parameter) or t.is_quantized:
        # A quantized tensor of another library: torchao and Transformer Engine spell it alike.
        return t.dequantize() if hasattr(t, "dequantize") else t
    return t


class _Hook:
    """Tells one who looks at plain modules; a copy, or what was pickled, tells nobody.

    Args:
        site: path of the module.
        modules: held weakly; none for a copy.
    """

    def __init__(self, site: str, modules: PlainModules | None = None) -> None:
        self._site, self._modules = site, (lambda: None) if modules is None else weakref.ref(modules)

    def __reduce__(self) -> tuple[type[_Hook], tuple[str]]:
        """How it is copied and pickled: without its listener."""
        return type(self), (self._site,)


class _ModuleHook(_Hook):
    """After a module's forward."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """The hook: of a training pass, outside of compiled code."""
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return
        modules = self._modules()
        if modules is not None and modules.is_watching:
            with torch.no_grad():
                modules.called(self._site, module, _first(*args, *kwargs.values()), _first(output))


class _PassHook(_Hook):
    """After a pass of the model."""

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """The hook: of a training pass, outside of compiled code."""
        modules = self._modules()
        if modules is not None and modules.is_watching and is_training_pass(module):
            modules.passes += 1


class _GradientHook(_Hook):
    """On an output, when its gradient is there."""

    def __call__(self, grad: Tensor) -> None:
        """The hook."""
        modules = self._modules()
        if modules is not None and modules.is_watching:
            modules.gatherer.tensor(self._site, "grad_output", _plain(grad))


def _first(*values: Any) -> Tensor | None:
    """The first floating tensor, in tuples and lists too."""
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
        if isinstance(value, tuple | list):
            found = _first(*value)
            if found is not None:
                return found
    return None
