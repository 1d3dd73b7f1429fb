"""Which rule each module falls under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from ..specs import ACTIVATION_PRODUCTS, Layer, Recipe, Rule
from ._class_swap import base_class
from ._foreign import left_alone
from ._function_sites import FUNCTION_TYPES, layer_at
from ._layer_types import LAYER_TYPES
from ._structure import Structure


@dataclass(frozen=True)
class Matched:
    """What a recipe says of a model's modules.

    Attributes:
        rules: the rule of every registered module, by path; a module that none is about is missing.
        alone: why a module is left as it is, by path.
        structure: of the model.
    """

    rules: Mapping[str, Rule]
    alone: Mapping[str, str]
    structure: Structure


def structure_of(model: nn.Module) -> Structure:
    """The repeated blocks of a model, seen from the registered types."""
    return Structure(model, tuple(LAYER_TYPES))


def match_rules(model: nn.Module, recipe: Recipe) -> Matched:
    """The first matching rule of every registered module, by path.

    Raises:
        ValueError: when a required rule, of any phase, matches nothing; the nearest paths are offered.
    """
    structure, alone = structure_of(model), left_alone(model)
    layers = {
        name: _layer(name, module, structure)
        for name, module in model.named_modules()
        if base_class(module) in LAYER_TYPES and name not in alone
    }
    rules = {name: rule for name, layer in layers.items() if (rule := recipe.rule_for(layer)) is not None}
    calls = [layer_at(name, kind, structure) for name in _paths(model) for kind in FUNCTION_TYPES]
    for rule in recipe.all_rules:
        if rule.required and not _is_used(rule, layers.values(), calls):
            raise ValueError(_unmatched(rule, recipe, layers))
    return Matched(rules, alone, structure)


def _layer(name: str, module: nn.Module, structure: Structure) -> Layer:
    kind = base_class(module)
    return layer_at(name, kind.__name__, structure, LAYER_TYPES[kind].features(module))


def _paths(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_modules()]


def _is_used(rule: Rule, layers: Iterable[Layer], calls: Iterable[Layer]) -> bool:
    """Whether a rule matches a layer, or (where it names a kind of call) a module that may make such a call."""
    if any(rule.matches(layer) for layer in layers):
        return True
    names_call = rule.type in (*ACTIVATION_PRODUCTS, "grouped_mm")
    return names_call and any(rule.matches(call) for call in calls)


def _unmatched(rule: Rule, recipe: Recipe, layers: Mapping[str, Layer]) -> str:
    near = get_close_matches(rule.match.replace("*", ""), layers, n=3, cutoff=0.3) or list(layers)[:3]
    offer = f"the nearest are {', '.join(near)}" if near else "the model has none"
    kinds = sorted({kind.__name__ for kind in LAYER_TYPES})
    return (
        f"recipe {recipe.name}: rule match={rule.match!r} type={rule.type!r} matches no layer of this model; "
        f"expected the path of a convertible layer ({', '.join(kinds)}): {offer}; "
        "correct the rule or say required = false"
    )
