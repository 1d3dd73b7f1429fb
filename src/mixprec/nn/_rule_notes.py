"""What a conversion tells of rules that do less on this model than they seem to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from torch import nn

from ..specs import Layer, Recipe, Rule
from ._class_swap import base_class
from ._function_sites import layer_at
from ._structure import Structure

_CASTLESS = (nn.RNNBase, nn.RNNCellBase, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Bilinear)


def castless_layers(model: nn.Module, structure: Structure) -> dict[str, Layer]:
    """Layers that multiply by weights and can have no casts, by path: they run in the compute dtype."""
    return {
        name: layer_at(name, base_class(module).__name__, structure)
        for name, module in model.named_modules()
        if isinstance(module, _CASTLESS)
    }


def said(rule: Rule, rules: Sequence[Rule]) -> str:
    """A rule by its place, counted from 1, and all that it asks for."""
    asked = {f.name: getattr(rule, f.name) for f in fields(rule) if f.name not in ("precision", "required")}
    given = {f.name: asked[f.name] for f in fields(rule) if f.name in asked and asked[f.name] != f.default}
    conditions = " ".join(f"{name}={value!r}" for name, value in {"match": rule.match, **given}.items())
    place = next((i for i, other in enumerate(rules, 1) if other is rule), 0)
    return f"rule {place} of {len(rules)} ({conditions})"


def notes_on_rules(
    recipe: Recipe,
    structure: Structure,
    layers: Mapping[str, Layer],
    calls: Sequence[Layer],
    castless: Mapping[str, Layer],
) -> tuple[str, ...]:
    """One sentence for each thing that a reader of the rules would not expect.

    Args:
        recipe: whose rules hold.
        structure: of the model.
        layers: what can be converted, by path.
        calls: what modules may call.
        castless: what multiplies and can have no casts, by path.
    """
    found = [*_on_repetition(recipe, [*layers.values(), *calls]), *_on_castless(recipe, castless)]
    return (*found, *_on_structure(recipe, structure, layers))


def _on_repetition(recipe: Recipe, meant: Sequence[Layer]) -> list[str]:
    """Rules that can never win on this model; ``required = false`` says that this is fine."""
    notes: list[str] = []
    for index, rule in enumerate(recipe.rules):
        takers = [
            next(r for r in recipe.rules[: index + 1] if r.matches(layer)) for layer in meant if rule.matches(layer)
        ]
        if rule.required and takers and all(taker is not rule for taker in takers):
            notes.append(
                f"recipe {recipe.name}: {said(rule, recipe.rules)} changes nothing: of every layer that it matches "
                f"{said(takers[0], recipe.rules)} or another earlier rule says the same"
            )
    return notes


def _on_castless(recipe: Recipe, castless: Mapping[str, Layer]) -> list[str]:
    names = [
        f"{name or 'the model'} ({layer.type})"
        for name, layer in castless.items()
        if (rule := recipe.rule_for(layer)) is not None and rule.precision is not None
    ]
    if not names:
        return []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return [
        f"recipe {recipe.name}: {names[0]}{more} can have no casts and multipl{'y' if more else 'ies'} in the compute "
        f"dtype ({recipe.compute_dtype})"
    ]


def _on_structure(recipe: Recipe, structure: Structure, layers: Mapping[str, Layer]) -> list[str]:
    """What rules about a model's structure come to where it has no repeated blocks to tell it by."""
    asks = [rule for rule in recipe.rules if rule.is_structural]
    if structure.blocks or not asks or not layers:
        return []
    notes: list[str] = []
    if any(rule.head for rule in asks):
        heads = [name for name, layer in layers.items() if layer.is_head]
        last = list(layers)[-1]
        taken = (
            f"{', '.join(heads)} is taken for the head, by its name or because it shares an embedding's weight"
            if heads
            else f"no layer is taken for the head, and {last or 'the model'}, the last one, is a layer like any other: "
            f'if it makes the output, put a rule match = {last!r} with precision = "compute" in front'
        )
        notes.append(f"recipe {recipe.name}: the model has no repeated blocks; {taken}")
    if any(rule.first_blocks is not None or rule.last_blocks is not None or rule.embeddings for rule in asks):
        notes.append(
            f"recipe {recipe.name}: the model has no repeated blocks, so that its rules about first_blocks, "
            "last_blocks or embeddings are about no layer: say which layers they mean by match"
        )
    return notes
