"""Recipes as TOML: written with tomlkit, read with the standard library.

A table ``[plan]`` is accepted and left alone: in a recipe that was found by measurement it holds the evidence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, cast

from ..formats import unknown_name
from ._accumulator import parse_accumulator
from ._layer import OPERANDS, ROLES, LayerPrecision
from ._loss_scale import NOT_SAID, LossScale
from ._moments import Moments
from ._parse import parse_cast
from ._phase import Phase
from ._recipe import Recipe, resolve_residual
from ._rule import Rule

_STRINGS = ("name", "compute_dtype", "residual", "weights", "engine", "reason")


def dump_recipe(recipe: Recipe) -> str:
    """Write a recipe; see ``Recipe.to_toml``."""
    import tomlkit  # costs some milliseconds, which only who writes a file should pay

    document = tomlkit.document()
    for name in _STRINGS:
        if name != "reason" or recipe.reason:
            document.add(name, getattr(recipe, name))
    tables = {"loss_scale": _changed(recipe.loss_scale, LossScale())}
    if recipe.moments != Moments():
        tables["moments"] = _changed(recipe.moments, Moments())
    for name, values in tables.items():
        document.add(name, tomlkit.item(values))  # pyright: ignore[reportUnknownMemberType]
    rules, phases = [_rule_table(rule) for rule in recipe.rules], [_phase_table(phase) for phase in recipe.phases]
    for name, tables in (("rules", rules), ("phases", phases)):
        array = tomlkit.aot()
        for table in tables:
            array.append(tomlkit.item(table))  # pyright: ignore[reportUnknownMemberType]
        if tables:
            document.add(name, array)
    return tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]


def parse_recipe(text: str) -> Recipe:
    """Read a recipe; see ``Recipe.from_toml``."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the recipe is not TOML: {error}") from error
    _check_keys("recipe", table, [*_STRINGS, "loss_scale", "moments", "rules", "phases", "plan"])
    _get(table, "plan", dict, "recipe", {})  # the evidence of a plan, which says nothing of how to train
    strings = {name: _get(table, name, str, "recipe") for name in _STRINGS if name in table}
    if "name" not in strings:
        raise ValueError('the recipe has no name: add a line such as name = "mine"')
    if "residual" in strings:
        strings["residual"] = resolve_residual(strings["residual"], strings.get("compute_dtype", "fp32"))
    phases = _get(table, "phases", list, "recipe", [])
    return Recipe(
        rules=_parse_rules(table, "recipe", "rules"),
        phases=tuple(_parse_phase(phase, f"phases[{index}]") for index, phase in enumerate(phases)),
        loss_scale=_parse_loss_scale(_get(table, "loss_scale", dict, "recipe", {})),
        moments=_parse_moments(_get(table, "moments", dict, "recipe", {})),
        **cast("Any", strings),
    )


def _changed(value: Any, default: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from its default, and its kind."""
    return {
        item.name: getattr(value, item.name)
        for item in fields(value)
        if item.name == "kind" or getattr(value, item.name) != getattr(default, item.name)
    }


def _rule_table(rule: Rule) -> dict[str, Any]:
    table = {name: _plain(value) for name, value in _changed(rule, Rule()).items() if name != "precision"}
    table = {"match": rule.match} | table
    precision = rule.precision
    if precision is None:
        return table | {"precision": "compute"}
    first = precision.operand(OPERANDS[0])
    if precision.is_uniform and first is not None and precision.accumulator is None:
        return table | {"precision": str(first)}
    casts = {name: str(precision.operand(name)) for name in OPERANDS if precision.operand(name) is not None}
    if precision.accumulator is not None:
        casts["accumulator"] = str(precision.accumulator)
    return table | {"precision": casts}


def _plain(value: Any) -> Any:
    """A number of blocks as the integer that it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _phase_table(phase: Phase) -> dict[str, Any]:
    names = ("from_step", "last", "when")
    start = {name: value for name in names if (value := getattr(phase, name)) is not None}
    return start | {"rules": [_rule_table(rule) for rule in phase.rules]}


def _parse_phase(value: Any, where: str) -> Phase:
    table = _as_table(value, where)
    _check_keys(where, table, ["from_step", "last", "when", "rules"])
    kinds: dict[str, type] = {"from_step": int, "last": float, "when": str}
    values = {name: _get(table, name, kind, where) for name, kind in kinds.items() if name in table}
    rules = _parse_rules(table, where, f"{where}.rules")
    with _told_at(where):
        return Phase(rules=rules, **values)


def _parse_rules(table: Mapping[str, Any], owner: str, where: str) -> tuple[Rule, ...]:
    rules = _get(table, "rules", list, owner, [])
    return tuple(_parse_rule(rule, f"{where}[{index}]") for index, rule in enumerate(rules))


def _as_table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        header = re.sub(r"\[[0-9]+\]", "", where)
        raise ValueError(f"{where} is {value!r}, expected a table: [[{header}]]")
    return cast("dict[str, Any]", value)


_RULE_KINDS: Mapping[str, type] = {
    "match": str,
    "type": str,
    "divisible_by": int,
    "min_size": int,
    "first_blocks": float,
    "last_blocks": float,
    "head": bool,
    "embeddings": bool,
    "required": bool,
}


def _parse_rule(value: Any, where: str) -> Rule:
    table = _as_table(value, where)
    _check_keys(where, table, [*_RULE_KINDS, "precision"])
    values = {name: _get(table, name, kind, where) for name, kind in _RULE_KINDS.items() if name in table}
    precision = _parse_precision(table.get("precision", "compute"), where)
    with _told_at(where):
        return Rule(precision=precision, **values)


def _parse_precision(value: Any, where: str) -> LayerPrecision | None:
    where = f"{where}.precision"
    if value == "compute":
        return None
    if isinstance(value, str):
        with _told_at(where):
            return LayerPrecision.uniform(parse_cast(value))
    if not isinstance(value, dict):
        raise ValueError(f'{where} is {value!r}, expected "compute", a cast for all operands, or a table of casts')
    table = cast("dict[str, Any]", value)
    is_by_role = any(key in ROLES for key in table)
    _check_keys(where, table, [*(ROLES if is_by_role else OPERANDS), "accumulator"])
    texts = {name: _get(table, name, str, where) for name in table}
    make = LayerPrecision.of if is_by_role else LayerPrecision
    with _told_at(where):
        accumulator = parse_accumulator(texts.pop("accumulator", "fp32"))
        casts: dict[str, Any] = {name: parse_cast(text) for name, text in texts.items() if text != "compute"}
        return make(accumulator=accumulator, **casts)


def _parse_loss_scale(table: dict[str, Any]) -> LossScale:
    _check_keys("loss_scale", table, [item.name for item in fields(LossScale)])
    kinds: dict[str, type] = {"kind": str, "interval": int, "hysteresis": int, "alarm_after": int}
    values = {name: _get(table, name, kinds.get(name, float), "loss_scale") for name in table}
    if not values:
        return NOT_SAID
    if "kind" not in values:  # numbers of a loss scale that nobody asked for would do nothing
        raise ValueError(
            f'loss_scale has {", ".join(values)} and no kind: expected kind = "static" or "dynamic" (or "none") beside'
        )
    with _told_at("loss_scale"):
        return LossScale(**values)


def _parse_moments(table: dict[str, Any]) -> Moments:
    kinds: dict[str, type] = {"kind": str, "block": int, "expand": bool, "small": int}
    _check_keys("moments", table, list(kinds))
    values: dict[str, Any] = {name: _get(table, name, kinds[name], "moments") for name in table}
    with _told_at("moments"):
        return Moments(**values)


@contextmanager
def _told_at(where: str) -> Generator[None]:
    """Name the place in the file where a value does not fit."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


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
        words = f"tables: [[{name}]]" if kind is list else f"a table: [{name}]" if kind is dict else kind.__name__
        raise ValueError(f"{where}.{name} is {value!r} ({type(value).__name__}), expected {words}")
    return value
