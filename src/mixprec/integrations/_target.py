"""The model that an emission is applied to."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


def refuse_another_model(model: nn.Module, layers: Iterable[str], recipe: str) -> None:
    """Refuse a model that has no ``nn.Linear`` where an emission has one.

    Args:
        model: to be changed.
        layers: paths of what is to be replaced.
        recipe: the emission's.

    Raises:
        ValueError: the model lacks a layer, or has something else in its place.
    """
    modules = dict(model.named_modules())
    for layer in layers:
        if type(modules.get(layer)) is not nn.Linear:
            got = type(modules[layer]).__name__ if layer in modules else "nothing"
            raise ValueError(
                f"recipe '{recipe}' was emitted for a model with an nn.Linear at {layer}, and this one has {got} "
                "there: emit it for this model"
            )
