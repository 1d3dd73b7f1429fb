"""Which rule each module falls under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from ..specs import ACTIVATION_PRODUCTS, Layer, Recipe, Rule
from ._class_swap import base_class
from ._foreign import left_alone
from ._function_sites import FUNCTION_TYPES, layer_at
from ._layer_types import LAYER_TYPES
from ._multihead import projections_of
from ._rule_notes import castless_layers, notes_on_rules, said
from ._structure import Structure


@dataclass(frozen=True)
class Matched:
    """What a recipe says of a model's modules.

    Attributes:
        rules: the rule of every registered module, by path; a module that none is about is missing.
        alone: why a module is left as it is, by path.
        structure: of the model.
        reaches: whether a layer or a call may get a cast at all.
        notes: what is to be told of the rules.
    """

    rules: Mapping[str, Rule]
    alone: Mapping[str, str]
    structure: Structure
    reaches: bool
    notes: tuple[str, ...] = ()


def structure_of(model: nn.Module) -> Structure:
    """The repeated blocks of a model, seen from what multiplies by weights."""
    return Structure(model, _is_layer)


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, tuple(LAYER_TYPES)) or _keeps_weights(module)


def match_rules(model: nn.Module, recipe: Recipe) -> Matched:
    """The first matching rule of every registered module, by path.

    Raises:
        ValueError: when a required rule, of any phase, matches nothing; the nearest paths are offered.
    """
    has_casts = any(rule.precision is not None for rule in recipe.all_rules)
    structure, alone = structure_of(model), left_alone(model, has_casts=has_casts)
    layers = {
        name: _layer(name, module, structure)
        for name, module in model.named_modules()
        if base_class(module) in LAYER_TYPES and name not in alone
    }
    rules = {name: rule for name, layer in layers.items() if (rule := recipe.rule_for(layer)) is not None}
    calls = [*_weight_calls(model, alone, structure), *_activation_calls(model, structure)]
    castless = castless_layers(model, structure)
    for rules_of_phase in (recipe.rules, *(phase.rules for phase in recipe.phases)):
        for rule in rules_of_phase:
            if rule.required:
                _check_castless(rule, rules_of_phase, recipe, castless)
                _check_required(rule, rules_of_phase, recipe, layers, calls, castless)
    found = (*rules.values(), *(recipe.rule_for(call) for call in calls))
    reaches = any(rule is not None and rule.precision is not None for rule in found)
    notes = notes_on_rules(recipe, structure, layers, calls, castless)
    return Matched(rules, alone, structure, reaches, notes)


def _layer(name: str, module: nn.Module, structure: Structure) -> Layer:
    kind = base_class(module)
    return layer_at(name, kind.__name__, structure, LAYER_TYPES[kind].features(module))


def _weight_calls(model: nn.Module, alone: Mapping[str, str], structure: Structure) -> Iterable[Layer]:
    """What a module that keeps weights itself may call with them, by the kind of call and by its class."""
    for name, module in model.named_modules():
        if base_class(module) in LAYER_TYPES or name in alone or not _keeps_weights(module):
            continue
        kinds = [kind for kind in FUNCTION_TYPES if kind not in ACTIVATION_PRODUCTS]
        for path in (name, *projections_of(name, module)):
            yield from (layer_at(path, kind, structure) for kind in (base_class(module).__name__, *kinds))


def _keeps_weights(module: nn.Module) -> bool:
    """Whether it has a matrix that is no embedding, and is of a class whose forward may multiply by it."""
    own = any(p.dim() > 1 for p in module.parameters(recurse=False))
    is_torchs = base_class(module).__module__.startswith("torch.nn.modules")
    return own and (not is_torchs or isinstance(module, nn.MultiheadAttention))


def _activation_calls(model: nn.Module, structure: Structure) -> Iterable[Layer]:
    """Products of activations, which any module may call."""
    for name, _ in model.named_modules():
        yield from (layer_at(name, kind, structure) for kind in ACTIVATION_PRODUCTS)


def _check_castless(rule: Rule, rules: Sequence[Rule], recipe: Recipe, castless: Mapping[str, Layer]) -> None:
    """Refuse casts for what can have none, where a rule asks for them by the type."""
    asked = [name for name, layer in castless.items() if rule.type == layer.type and rule.matches(layer)]
    if asked and rule.precision is not None:
        raise ValueError(
            f"recipe {recipe.name}: {said(rule, rules)} gives casts to {asked[0] or 'the model'}, and a {rule.type} "
            "can have none: it multiplies in the compute dtype; drop the rule, or say required = false"
        )


def _check_required(
    rule: Rule,
    rules: Sequence[Rule],
    recipe: Recipe,
    layers: Mapping[str, Layer],
    calls: Sequence[Layer],
    castless: Mapping[str, Layer],
) -> None:
    meant = [layer for layer in (*layers.values(), *calls) if rule.matches(layer)]
    if not meant:
        without = next((layer for layer in castless.values() if rule.matches(layer)), None)
        if without is not None and rule.precision is None:
            return  # as it is anyway
        raise ValueError(_unmatched(rule, rules, recipe, layers, without))
    earlier = rules[: next(i for i, other in enumerate(rules) if other is rule)]
    taken = [next((other for other in earlier if other.matches(layer)), None) for layer in meant]
    first = next((t for t in taken if t is not None and t.precision != rule.precision), None)
    if first is not None and None not in taken:
        raise ValueError(
            f"recipe {recipe.name} contradicts itself: its {said(rule, rules)} says one thing of "
            f"{meant[0].path or 'the model'}, the earlier {said(first, rules)} another, and the first rule wins "
            "wherever the later one would apply: put the narrower rule first, or say required = false"
        )


def _unmatched(
    rule: Rule, rules: Sequence[Rule], recipe: Recipe, layers: Mapping[str, Layer], without: Layer | None
) -> str:
    near = get_close_matches(rule.match.replace("*", ""), layers, n=3, cutoff=0.3) or list(layers)[:3]
    offer = f"the nearest are {', '.join(near)}" if near else "the model has none"
    types = {kind.__name__ for kind in LAYER_TYPES} | set(FUNCTION_TYPES) | {layer.type for layer in layers.values()}
    if rule.type is not None and rule.type not in types:
        by_lower = {kind.lower(): kind for kind in sorted(types)}
        alike = get_close_matches(rule.type.lower(), by_lower, n=1)
        offer = f"no type is called {rule.type!r}" + (f": did you mean {by_lower[alike[0]]!r}?" if alike else "")
    if without is not None:
        offer = f"{without.path or 'the model'} is a {without.type}, which can have no casts; {offer}"
    kinds = sorted({kind.__name__ for kind in LAYER_TYPES})
    return (
        f"recipe {recipe.name}: {said(rule, rules)} matches no layer of this model; expected all of its conditions to "
        f"hold for a convertible layer ({', '.join(kinds)}): {offer}; correct the rule or say required = false"
    )
