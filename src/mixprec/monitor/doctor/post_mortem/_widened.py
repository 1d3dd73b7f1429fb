"""The rule that gives a recipe from its start what an escalation gave the run."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from ....records import EventRecord
from ....specs import OPERANDS, LayerPrecision, Recipe, parse_cast, places_of
from .._rules import goes_with, rule_at
from ._case import Case

#: Name of the event by which a session tells that a site is wider.
_WIDENED = "widened"
_NAMES = {name.replace("_", " ", 1): name for name in OPERANDS}


def widened_sites(case: Case) -> dict[str, str]:
    """What the incident's escalation made wider: its message by site, as the session told it."""
    return {
        record.site: record.message
        for record in case.history[case.begun : case.begun_next]
        if isinstance(record, EventRecord) and record.name == _WIDENED and record.step <= case.incident.step
    }


def widened_rules(case: Case) -> str:
    """The same as TOML, to be put before the recipe's own rules; empty where it cannot be told."""
    recipe = case.contents.recipes.get(case.run.recipe)
    texts = [_rule(site, message, recipe) for site, message in widened_sites(case).items()]
    rule = "\n".join(text for text in texts if text)
    return rule if rule and goes_with(recipe, rule) else ""


def _rule(site: str, message: str, recipe: Recipe | None) -> str:
    # A session tells of a site what is wider than the recipe has it, so that the last word holds all.
    if recipe is None:
        return ""
    changed = _changes(message.removeprefix(f"{site}: "))
    dtype = recipe.compute_dtype
    for rule in recipe.all_rules:
        own = rule.precision
        if own is None or not any(fnmatchcase(path, rule.match) for path, _ in places_of(site)):
            continue
        if changed and all(_cast_text(own, name, dtype) == old for name, (old, _) in changed.items()):
            return _text(site, own, {name: new for name, (_, new) in changed.items()}, dtype)
    return ""


def _changes(message: str) -> dict[str, tuple[str, str]]:
    """Cast before and cast after, by operand."""
    changes: dict[str, tuple[str, str]] = {}
    for part in message.split("; "):
        names, rest = _split_names(part)
        old, arrow, new = rest.partition(" -> ")
        if not names or not arrow:
            return {}
        changes |= dict.fromkeys(names, (old, new))
    return changes


def _split_names(part: str) -> tuple[list[str], str]:
    """The operands that a part begins with, and the rest."""
    names, rest = list[str](), part
    while found := next((told for told in _NAMES if rest.startswith(told)), None):
        names.append(_NAMES[found])
        rest = rest.removeprefix(found).removeprefix(",").lstrip()
    return names, rest


def _cast_text(precision: LayerPrecision, name: str, dtype: str) -> str:
    return str(precision.operand(name) or dtype)


def _text(site: str, own: LayerPrecision, changed: dict[str, str], dtype: str) -> str:
    try:
        casts = {name: None if new == dtype else parse_cast(new) for name, new in changed.items()}
        precision = replace(own, **casts)
    except ValueError:
        return ""
    is_plain = all(precision.operand(name) is None for name in OPERANDS)
    return rule_at(site, None if is_plain else precision)
