"""The module types that a rule can give casts to: a registry from a type to how it multiplies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from torch import nn

from ._autograd import is_in_backward
from ._class_swap import base_class, subclass_of
from ._compute_mode import is_active
from ._region import run_outermost
from ._site import SITE, Site
from ._site_products import SiteProducts
from ._user_regions import is_left_to_torch, note_module

Forward = Callable[..., Any]
_F = TypeVar("_F", bound=Forward)


@dataclass(frozen=True, kw_only=True)
class LayerType:
    """How a module type multiplies.

    Attributes:
        forward: ``forward(module, products, *args, **kwargs)``: what the module computes, its products through
            ``products``.
        features: the module's feature counts, (output, input) first, for the sizes that rules ask of.
    """

    forward: Forward
    features: Callable[[Any], tuple[int, ...]]


_registered: dict[type[nn.Module], LayerType] = {}

LAYER_TYPES: Mapping[type[nn.Module], LayerType] = MappingProxyType(_registered)
"""Every registered type; a module is looked up by its exact class, since a subclass may compute something else."""


def register_layer(
    kind: type[nn.Module], *, features: Callable[[Any], tuple[int, ...]] | None = None
) -> Callable[[_F], _F]:
    """Teach the conversion a module type, for good; call it at import.

    Without it, the functions that a module calls (``F.linear``, ``F.conv2d``, ``torch.matmul``, ...) are given casts by
    rules about the module's path all the same; a registered type has a site of its own, and rules can name it. What its
    forward calls beside ``products`` (``F.scaled_dot_product_attention``, say) is under rules as in any other module.

    Args:
        kind: the class; modules of just this class are meant.
        features: the module's feature counts, for rules that ask for sizes.

    Returns:
        A decorator of ``forward(module, products, *args, **kwargs)``, which computes what the module's own forward
        does, with ``products.linear``, ``products.matmul``, ``products.convolution`` in place of torch's.

    Raises:
        ValueError: the class is registered already.

    Example:
        >>> class Scaled(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.ones(2, 3))
        >>> @register_layer(Scaled, features=lambda m: tuple(m.weight.shape))
        ... def forward(module, products, x):
        ...     return products.linear(x, module.weight) * 0.5
    """

    def decorate(forward: _F) -> _F:
        if kind in _registered:
            raise ValueError(f"register_layer: {kind.__name__} is registered already, a type has one forward")
        _registered[kind] = LayerType(forward=forward, features=features or _no_features)
        return forward

    return decorate


def is_layer_type(kind: type[nn.Module]) -> bool:
    """Whether a class is registered: its modules have sites of their own, and rules name them by it."""
    return kind in LAYER_TYPES


def is_torchs_layer(module: nn.Module) -> bool:
    """Whether a module is of a registered type of torch's own, which calls no function that rules are about."""
    kind = base_class(module)
    return kind in LAYER_TYPES and kind.__module__.startswith("torch.nn.")


def _no_features(module: nn.Module) -> tuple[int, ...]:
    return ()


@functools.cache
def converted_class(base: type[nn.Module]) -> type[nn.Module]:
    """The subclass of a registered type whose products are cast by its site; same name, one for each base."""
    kind = LAYER_TYPES[base]

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        site: Site = self.__dict__[SITE]
        state = site.state
        if is_active(state):
            note_module(state, site.name)
            if is_left_to_torch(state):
                return base.forward(self, *args, **kwargs)
        elif not is_in_backward():  # called beside the model's own forward, by another method or from outside
            alone = functools.partial(kind.forward, self, SiteProducts(site))
            return run_outermost(state, site.name, alone, args, kwargs)
        elif site.name in state.left:  # checkpointed by itself
            return base.forward(self, *args, **kwargs)
        before = state.enter_call(args, kwargs)
        try:
            return kind.forward(self, SiteProducts(site), *args, **kwargs)
        finally:
            state.leave_call(before)

    return subclass_of(base, forward, converted_class)


def is_converted_layer(module: nn.Module) -> bool:
    """Whether a module's own products are cast by a site: a watch of operands sees them."""
    return SITE in module.__dict__
