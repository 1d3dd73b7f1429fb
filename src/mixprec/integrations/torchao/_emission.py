"""What torchao is told of a model: configs, and the layers that each is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from .._expression import Call, Name
from .._extra import built
from .._target import refuse_another_model
from ._source import source_of

INSTALL = 'pip install "mixprec[torchao]"'
#: What applies a config, by the package of the config.
_CONVERTERS = {
    True: Name(module="torchao.float8", name="convert_to_float8_training"),
    False: Name(module="torchao.quantization", name="quantize_"),
}


@dataclass(frozen=True, kw_only=True)
class TorchaoSetting:
    """A config of torchao's, and the layers that it is for.

    Attributes:
        config: as an expression.
        layers: paths of ``nn.Linear`` modules, in the model's order.
    """

    config: Call
    layers: tuple[str, ...]

    @property
    def is_float8(self) -> bool:
        """Whether ``convert_to_float8_training`` takes the config, else ``quantize_``."""
        return self.config.function.name == "Float8LinearConfig"

    @property
    def converter(self) -> Name:
        """The function that takes the config."""
        return _CONVERTERS[self.is_float8]

    def make_config(self) -> Any:
        """Build the config.

        Raises:
            ImportError: torchao is not installed, or its release has other names.
        """
        return built(self.config, what="This setting", package="torchao", install=INSTALL)

    def takes(self, module: nn.Module, path: str) -> bool:
        """Tell whether the config is for a module: torchao's ``module_filter_fn`` and ``filter_fn``."""
        return path in self.layers


@dataclass(frozen=True, kw_only=True)
class TorchaoEmission:
    """A recipe for torchao: all of it, or none.

    Attributes:
        recipe: its name.
        settings: each layer with casts is in one.
        wide: sites of products that stay in the compute dtype.
        kept: sites that the recipe gives casts and that were asked to stay wide.
        notes: what torchao does otherwise, or leaves to the loop.
        reasons: of a plan, by site.
    """

    recipe: str
    settings: tuple[TorchaoSetting, ...]
    wide: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def layers(self) -> tuple[str, ...]:
        """All layers that are converted."""
        return tuple(layer for setting in self.settings for layer in setting.layers)

    def apply(self, model: nn.Module) -> nn.Module:
        """Convert the model that this was made for, or an equal one, in place.

        Before the optimizer is made: some configs make the weights other parameters.

        Raises:
            ValueError: the model lacks a layer, or has something else in its place; nothing is converted then.
            ImportError: torchao is not installed, or its release has other names.
        """
        refuse_another_model(model, self.layers, self.recipe)
        configs = [setting.make_config() for setting in self.settings]
        for setting, config in zip(self.settings, configs, strict=True):
            convert = built(setting.converter, what="This recipe", package="torchao", install=INSTALL)
            if setting.is_float8:
                convert(model, config=config, module_filter_fn=setting.takes)
            else:
                convert(model, config, filter_fn=setting.takes)
        return model

    def to_source(self) -> str:
        """Write a Python file whose ``apply(model)`` does the same without mixprec."""
        return source_of(self)
