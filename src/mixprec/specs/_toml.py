"""Recipes as TOML: written with tomlkit, read with the standard library."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from ..formats import unknown_name
from ._layer import OPERANDS, LayerPrecision
from ._parse import parse_cast
from ._recipe import LossScale, Recipe, Rule, resolve_residual

_ROLES = ("input", "weight", "grad_output")
_STRINGS = ("name", "compute_dtype", "residual", "weights", "engine", "reason")


def dump_recipe(recipe: Recipe) -> str:
    """Write a recipe; see ``Recipe.to_toml``."""
    import tomlkit  # costs some milliseconds, which only who writes a file should pay

    document = tomlkit.document()
    for name in _STRINGS:
        if name != "reason" or recipe.reason:
            document.add(name, getattr(recipe, name))
    loss_scale = tomlkit.table()
    for name, value in _changed(recipe.loss_scale, LossScale()).items():
        loss_scale.add(name, value)
    document.add("loss_scale", loss_scale)
    rules = tomlkit.aot()
    for rule in recipe.rules:
        rules.append(tomlkit.item(_rule_table(rule)))  # pyright: ignore[reportUnknownMemberType]
    if recipe.rules:
        document.add("rules", rules)
    return tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]


def parse_recipe(text: str) -> Recipe:
    """Read a recipe; see ``Recipe.from_toml``."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the recipe is not TOML: {error}") from error
    _check_keys("recipe", table, [*_STRINGS, "loss_scale", "rules"])
    strings = {name: _get(table, name, str, "recipe") for name in _STRINGS if name in table}
    if "name" not in strings:
        raise ValueError('the recipe has no name: add a line such as name = "mine"')
    if "residual" in strings:
        strings["residual"] = resolve_residual(strings["residual"], strings.get("compute_dtype", "fp32"))
    rules = tuple(_parse_rule(rule, index) for index, rule in enumerate(_get(table, "rules", list, "recipe", [])))
    loss_scale = _parse_loss_scale(_get(table, "loss_scale", dict, "recipe", {}))
    return Recipe(rules=rules, loss_scale=loss_scale, **cast("Any", strings))


def _changed(value: Any, default: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from its default, and its kind."""
    return {
        item.name: getattr(value, item.name)
        for item in fields(value)
        if item.name == "kind" or getattr(value, item.name) != getattr(default, item.name)
    }


def _rule_table(rule: Rule) -> dict[str, Any]:
    table = {name: value for name, value in _changed(rule, Rule()).items() if name != "precision"}
    table = {"match": rule.match} | table
    precision = rule.precision
    if precision is None:
        return table | {"precision": "compute"}
    first = precision.operand(OPERANDS[0])
    if precision.is_uniform and first is not None:
        return table | {"precision": str(first)}
    casts = {name: str(precision.operand(name)) for name in OPERANDS if precision.operand(name) is not None}
    return table | {"precision": casts}


def _parse_rule(table: Any, index: int) -> Rule:
    where = f"rules[{index}]"
    if not isinstance(table, dict):
        raise ValueError(f"{where} is {table!r}, expected a table: [[rules]]")
    table = cast("dict[str, Any]", table)
    kinds: dict[str, type] = {"match": str, "type": str, "divisible_by": int, "min_size": int, "required": bool}
    _check_keys(where, table, [*kinds, "precision"])
    values = {name: _get(table, name, kind, where) for name, kind in kinds.items() if name in table}
    return Rule(precision=_parse_precision(table.get("precision", "compute"), where), **values)


def _parse_precision(value: Any, where: str) -> LayerPrecision | None:
    where = f"{where}.precision"
    if value == "compute":
        return None
    if isinstance(value, str):
        return LayerPrecision.uniform(parse_cast(value))
    if not isinstance(value, dict):
        raise ValueError(f'{where} is {value!r}, expected "compute", a cast for all operands, or a table of casts')
    table = cast("dict[str, Any]", value)
    is_by_role = any(key in _ROLES for key in table)
    _check_keys(where, table, _ROLES if is_by_role else OPERANDS)
    casts = {name: parse_cast(_get(table, name, str, where)) for name in table}
    return LayerPrecision.of(**casts) if is_by_role else LayerPrecision(**cast("Any", casts))


def _parse_loss_scale(table: dict[str, Any]) -> LossScale:
    _check_keys("loss_scale", table, [item.name for item in fields(LossScale)])
    kinds: dict[str, type] = {"kind": str, "interval": int}
    values = {name: _get(table, name, kinds.get(name, float), "loss_scale") for name in table}
    return LossScale(**values)


def _check_keys(where: str, table: Mapping[str, Any], known: list[str] | tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise unknown_name(f"key in {where}:", key, known)


def _get(table: Mapping[str, Any], name: str, kind: type, where: str, default: Any = None) -> Any:
    """Take a value of the right type; an integer is a float, but a boolean is no integer."""
    value = table.get(name, default)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{where}.{name} is {value!r} ({type(value).__name__}), expected {kind.__name__}")
    return value
