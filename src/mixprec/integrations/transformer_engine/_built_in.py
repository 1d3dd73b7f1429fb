"""Transformer Engine's own recipes, where they are what is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from ...specs import LayerPrecision, recipe
from .._expression import Call, Name

#: The class in ``transformer_engine.common.recipe`` that computes, with its defaults, what a recipe of mixprec says.
_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "fp8": "Float8CurrentScaling",
        "fp8-delayed": "DelayedScaling",
        "fp8-block": "Float8BlockScaling",
        "mxfp8": "MXFP8BlockScaling",
        "nvfp4": "NVFP4BlockScaling",
    }
)


def built_in_recipe(precisions: Collection[LayerPrecision]) -> Call | None:
    """Give Transformer Engine's own recipe for layers that all have its casts, or ``None``."""
    if len(set(precisions)) != 1:
        return None
    (wanted,) = set(precisions)
    for name, class_name in _CLASSES.items():
        casts = [rule.precision for rule in recipe(name).rules if rule.precision is not None]
        if wanted == casts[-1]:
            return Call.of(Name(module="transformer_engine.common.recipe", name=class_name))
    return None
