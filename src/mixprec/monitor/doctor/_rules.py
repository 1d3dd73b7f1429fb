"""Remedies as TOML: a rule for one layer, in its recipe's own terms; and a recipe with such a text added."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ...specs import Cast, LayerPrecision, Recipe, Rule, operands_of, places_of, rules_at


def with_rule(recipe: Recipe, text: str) -> Recipe:
    r"""A recipe with a remedy's TOML added: rules go before its own (of each phase too), other keys replace.

    Args:
        recipe: the one that the run had.
        text: as a finding's ``rule``.

    Raises:
        ValueError: the text is no part of a recipe, or does not go together with this one.

    Example:
        >>> from mixprec.specs import recipe
        >>> changed = with_rule(recipe("mxfp8"), '[[rules]]\nmatch = "head"\nprecision = "compute"\n')
        >>> changed.rules[0].match, len(changed.rules) - len(recipe("mxfp8").rules)
        ('head', 1)
    """
    import tomlkit  # costs some milliseconds, which only who writes TOML should pay

    try:
        added = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the rule is not TOML: {error}") from None
    table: dict[str, Any] = tomllib.loads(recipe.to_toml())
    rules = added.pop("rules", [])
    table.update(added)
    for owner in (table, *table.get("phases", [])) if rules else ():
        owner["rules"] = [*rules, *owner.get("rules", [])]
    return Recipe.from_toml(tomlkit.dumps(table))  # pyright: ignore[reportUnknownMemberType]


def goes_with(recipe: Recipe | None, text: str) -> bool:
    """Whether a remedy's TOML can be added to a recipe; to one that is not known: whether it reads at all."""
    try:
        with_rule(recipe or Recipe(name="unknown", compute_dtype="bf16"), text)
    except (ValueError, TypeError):
        return False
    return True


def compute_rule(site: str) -> str:
    """What leaves a site in the compute dtype; empty for a site that no rule can name.

    Example:
        >>> print(compute_rule("blocks.0.attn.qk"))
        [[rules]]
        match = "blocks.0.attn.qk"
        required = false
        precision = "compute"
        <BLANKLINE>
        [[rules]]
        match = "blocks.0.attn"
        type = "qk"
        required = false
        precision = "compute"
        <BLANKLINE>
    """
    return rule_at(site, None)


def rule_at(site: str, precision: LayerPrecision | None) -> str:
    """What gives a site a precision, or leaves it in the compute dtype; empty for a site that no rule can name."""
    return _text(rules_at(site, precision))


def cast_rule(site: str, role: str, better: Cast, recipe: Recipe | None, now: Cast) -> str:
    """What gives one role of a site another cast and leaves its other operands as the recipe has them.

    Args:
        site: the layer.
        role: of the operand.
        better: its cast from now on.
        recipe: that the run had.
        now: its cast so far, by which the rule that the layer fell under is known.

    Returns:
        The rule; empty where the recipe's rule is not known or the casts do not go together.
    """
    precision = _precision_at(site, role, recipe, now)
    if precision is None:
        return ""
    try:
        changed = replace(precision, **dict.fromkeys(operands_of(role), better))
    except ValueError:
        return ""
    text = rule_at(site, changed)
    return text if goes_with(recipe, text) else ""


def _precision_at(site: str, role: str, recipe: Recipe | None, now: Cast) -> LayerPrecision | None:
    for rule in () if recipe is None else recipe.all_rules:
        if rule.precision is None or not any(fnmatchcase(path, rule.match) for path, _ in places_of(site)):
            continue
        if any(rule.precision.operand(name) == now for name in operands_of(role)):
            return rule.precision
    return None


def _text(rules: list[Rule]) -> str:
    if not rules:
        return ""
    text = Recipe(name="rules", rules=tuple(rules)).to_toml()
    return text[text.index("[[rules]]") :]
