"""What Transformer Engine is told of a model: quantizers by layer and tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .._expression import Call, Name, Value
from .._extra import built
from .._target import refuse_another_model
from ._layer import TENSORS
from ._quantizers import IDENTITY, te
from ._source import source_of

INSTALL = "pip install --no-build-isolation 'transformer_engine[pytorch]'"


@dataclass(frozen=True, kw_only=True)
class TransformerEngineSetting:
    """The quantizers of a layer's tensors, and the layers that they are for.

    Attributes:
        quantizers: of input, weight and output's gradient, as expressions.
        layers: paths of ``nn.Linear`` modules, in the model's order.
    """

    quantizers: tuple[Call, Call, Call]
    layers: tuple[str, ...]

    def quantizer(self, tensor_type: str) -> Call:
        """Give the quantizer of a slot; slots that no product reads are wide."""
        return dict(zip(TENSORS, self.quantizers, strict=True)).get(tensor_type, IDENTITY.call)


@dataclass(frozen=True, kw_only=True)
class TransformerEngineEmission:
    """A recipe for Transformer Engine: all of it, or none.

    Attributes:
        recipe: its name.
        settings: each layer with casts is in one.
        built_in: Transformer Engine's own recipe, where all layers have its casts; ``None``: a ``CustomRecipe``.
        wide: sites of products that stay in the compute dtype.
        kept: sites that the recipe gives casts and that were asked to stay wide.
        notes: what Transformer Engine does otherwise, or leaves to the loop.
        reasons: of a plan, by site.
    """

    recipe: str
    settings: tuple[TransformerEngineSetting, ...]
    built_in: Call | None = None
    wide: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def layers(self) -> tuple[str, ...]:
        """All layers that become ``te.Linear``."""
        return tuple(layer for setting in self.settings for layer in setting.layers)

    def quantizer_factory(self, role: Any) -> Any:
        """Make the quantizer of a ``QuantizerRole``, a fresh one each time: a ``CustomRecipe``'s ``qfactory``.

        Layers are known by ``role.name``, their paths; what is of no layer here stays in high precision.
        """
        name = "" if role is None else role.name
        found = next((setting for setting in self.settings if name in setting.layers), None)
        return _built(IDENTITY.call if role is None or found is None else found.quantizer(role.tensor_type))

    def make_recipe(self) -> Any:
        """Make the recipe for ``te.autocast(enabled=True, recipe=...)``.

        Raises:
            ImportError: Transformer Engine is not installed, or its release has other names.
        """
        if self.built_in is not None:
            return _built(self.built_in)
        custom = _built(Name(module="transformer_engine.common.recipe", name="CustomRecipe"))
        return custom(qfactory=self.quantizer_factory)

    def apply(self, model: nn.Module) -> nn.Module:
        """Replace the layers of the model that this was made for, or of an equal one, by ``te.Linear``, in place.

        Before the optimizer is made: the weights become other parameters, with the same values and names.

        Raises:
            ValueError: the model lacks a layer, or has something else in its place; nothing is replaced then.
            ImportError: Transformer Engine is not installed.
        """
        refuse_another_model(model, self.layers, self.recipe)
        linear = _built(te("Linear"))
        for layer in self.layers:
            model.set_submodule(layer, _replaced(layer, model.get_submodule(layer), linear))
        return model

    def to_source(self) -> str:
        """Write a Python file whose ``apply(model)`` and ``make_recipe()`` do the same without mixprec."""
        return source_of(self)


def _built(value: Value) -> Any:
    return built(value, what="This recipe", package="transformer_engine", install=INSTALL)


@torch.no_grad()
def _replaced(path: str, module: nn.Module, linear: Any) -> nn.Module:
    weight, bias = module.get_parameter("weight"), dict(module.named_parameters()).get("bias")
    rows, columns = weight.shape
    options = {"bias": bias is not None, "params_dtype": weight.dtype, "device": weight.device, "name": path}
    made: nn.Module = linear(columns, rows, **options)
    for name, old in (("weight", weight), ("bias", bias)):
        if old is not None:
            made.get_parameter(name).copy_(old).requires_grad_(old.requires_grad)
    return made.train(module.training)
