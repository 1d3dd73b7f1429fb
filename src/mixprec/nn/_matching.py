"""Which rule each module falls under."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from torch import nn

from ..specs import Recipe, Rule
from ._modules import CONVERTED
from ._region import base_class


def rules_by_module(model: nn.Module, recipe: Recipe) -> dict[str, Rule]:
    """The first matching rule of every convertible module, by path.

    Raises:
        ValueError: when a required rule matches no module; the nearest paths are offered.
    """
    candidates = {name: module for name, module in model.named_modules() if base_class(module) in CONVERTED}
    chosen: dict[str, Rule] = {}
    used: set[int] = set()
    for name, module in candidates.items():
        for index, rule in enumerate(recipe.rules):
            if matches(rule, name, module):
                used.add(index)
                chosen.setdefault(name, rule)
    for index, rule in enumerate(recipe.rules):
        if rule.required and index not in used:
            raise ValueError(_unmatched(rule, recipe, candidates))
    return chosen


def notes_on_subclasses(model: nn.Module, recipe: Recipe) -> tuple[str, ...]:
    """Layers that one would think a recipe's casts reach: subclasses of a convertible type that are not torch's own."""
    if all(rule.precision is None for rule in recipe.rules):
        return ()
    foreign: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        base = base_class(module)
        if isinstance(module, tuple(CONVERTED)) and base not in CONVERTED and not base.__module__.startswith("torch."):
            foreign.setdefault(base.__name__, []).append(name)
    return tuple(
        f"recipe {recipe.name}: {len(names)} layers of class {kind} ({names[0]}, ...) stay in {recipe.compute_dtype}: "
        "a subclass may compute something else than its base, which alone is given casts"
        for kind, names in foreign.items()
    )


def matches(rule: Rule, name: str, module: nn.Module) -> bool:
    """Whether ``rule`` is about this module."""
    shape = tuple(module.weight.shape) if isinstance(module, nn.Linear) else ()
    return rule.matches(name, base_class(module).__name__, shape)


def _unmatched(rule: Rule, recipe: Recipe, candidates: Mapping[str, nn.Module]) -> str:
    near = get_close_matches(rule.match.replace("*", ""), candidates, n=3, cutoff=0.3) or list(candidates)[:3]
    offer = f"the nearest are {', '.join(near)}" if near else "the model has none"
    return (
        f"recipe {recipe.name}: rule match={rule.match!r} type={rule.type!r} matches no layer of this model; "
        f"expected the path of a convertible layer ({', '.join(t.__name__ for t in CONVERTED)}): {offer}; "
        "correct the rule or say required = false"
    )
