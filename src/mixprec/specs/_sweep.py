"""Variants of a recipe: one for each combination of values of its fields, which are named by paths."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, get_args

from ..formats import Overflow, Rounding, unknown_name
from ._cast import Cast, ScaleRule, Signs, default_overflow, default_ratio, default_rule
from ._delayed import parse_delayed
from ._granularity import Granularity
from ._layer import OPERANDS
from ._loss_scale import LossScale
from ._moments import Moments
from ._parse import parse_cast
from ._recipe import Recipe

_PLAIN = ("compute_dtype", "residual", "weights", "engine")
_TABLES: Mapping[str, type[Any]] = MappingProxyType({"loss_scale": LossScale, "moments": Moments})
_CAST_FIELDS = tuple(item.name for item in fields(Cast))


class NoCastError(ValueError):
    """A sweep over an operand's cast, of a recipe that has none there."""


def sweep_recipe(recipe: Recipe, values: Mapping[str, Sequence[str]]) -> tuple[Recipe, ...]:
    """Make a variant of a recipe for each combination of values, named for what it sets.

    Paths are those of a recipe's TOML (``weights``, ``loss_scale.initial``, ``moments.kind``), or of an operand of the
    three products (``wgrad.grad_output``) and a field of its cast (``wgrad.grad_output.rounding``). A path of an
    operand is set in every rule, of phases too, whose casts have a scale: layers that a recipe keeps in 16 bits stay
    so. In a recipe without a scaled cast it is set in all rules that have casts.

    Args:
        recipe: to start from.
        values: by path; each a word as TOML or the one-line form of a cast has it. A beginning that fits one choice
            alone is enough: ``nearest`` is ``nearest-even``.

    Raises:
        NoCastError: a recipe without the operand's cast.
        ValueError: a path that leads nowhere (the message lists what may follow), or a value that does not fit there.

    Example:
        >>> from mixprec.specs import recipe
        >>> variants = sweep_recipe(recipe("nvfp4"), {"wgrad.grad_output.rounding": ["nearest", "stochastic"]})
        >>> [variant.name for variant in variants]
        ['nvfp4[wgrad.grad_output.rounding=nearest]', 'nvfp4[wgrad.grad_output.rounding=stochastic]']
        >>> [str(variant.rules[-1].precision.wgrad_grad_output) for variant in variants]
        ['nvfp4 rht16', 'nvfp4 sr rht16']
    """
    return tuple(
        _variant(recipe, dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())
    )


def _variant(recipe: Recipe, settings: Mapping[str, str]) -> Recipe:
    import tomlkit  # costs some milliseconds, which only who sweeps should pay

    table = tomllib.loads(recipe.to_toml())
    told = ",".join(f"{path}={value}" for path, value in settings.items())
    try:
        for path, value in settings.items():
            _set(table, recipe.name, path.split("."), value)
        text = tomlkit.dumps(table | {"name": f"{recipe.name}[{told}]"})  # pyright: ignore[reportUnknownMemberType]
        return Recipe.from_toml(text)
    except ValueError as error:
        kind = NoCastError if isinstance(error, NoCastError) else ValueError
        raise kind(f"recipe '{recipe.name}' with {told}: {error}") from error


def _set(table: dict[str, Any], name: str, parts: Sequence[str], text: str) -> None:
    first, *rest = parts
    products: dict[str, dict[str, str]] = {}  # "wgrad" to {"grad_output": "wgrad_grad_output"}
    for operand in OPERANDS:
        product, _, role = operand.partition("_")
        products.setdefault(product, {})[role] = operand
    where = ".".join(parts)
    if first in products:
        roles = products[first]
        role = _next(first, rest, roles)
        _end_of(where, rest[2:])
        return _set_operand(table, name, where, roles[role], rest[1:], text)
    if first in _TABLES:
        field = _next(first, rest, [item.name for item in fields(_TABLES[first])])
        _end_of(where, rest[1:])
        table[first] = {**table.get(first, {}), field: _toml_value(text)}
        return None
    if first not in _PLAIN:
        raise unknown_name("field of a recipe:", first, [*_PLAIN, *_TABLES, *products])
    _end_of(where, rest)
    table[first] = text
    return None


def _next(before: str, rest: Sequence[str], known: Mapping[str, Any] | Sequence[str]) -> str:
    """The word that follows ``before`` in a path."""
    if not rest:
        raise ValueError(f"the path ends at '{before}': expected one of {', '.join(known)} after it")
    if rest[0] not in known:
        raise unknown_name(f"field of {before}:", rest[0], known)
    return rest[0]


def _end_of(where: str, rest: Sequence[str]) -> None:
    if rest:
        raise ValueError(f"the path {where} is too long: leave out '.{'.'.join(rest)}'")


def _toml_value(text: str) -> Any:
    """A number or a flag as TOML reads it; any other word is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set_operand(table: dict[str, Any], name: str, where: str, operand: str, field: Sequence[str], text: str) -> None:
    if field and field[0] not in _CAST_FIELDS:
        raise unknown_name(f"field of {where.rpartition('.')[0]}:", field[0], _CAST_FIELDS)
    with_casts = [rule for rule in _rules(table) if rule.get("precision", "compute") != "compute"]
    scaled = [rule for rule in with_casts if any(parse_cast(text).is_scaled for text in _casts(rule).values())]
    count = 0
    for rule in scaled or with_casts:
        casts = _casts(rule)
        if field:
            if operand not in casts:
                continue
            casts[operand] = str(_with_field(parse_cast(casts[operand]), field[0], text))
        else:
            casts[operand] = text
        rule["precision"] = {**_accumulator(rule), **casts}
        count += 1
    if not count:
        raise NoCastError(
            f"it has no cast at {where}, which `mixprec recipes {name}` shows: sweep a recipe that has, or add a rule"
        )


def _rules(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from table.get("rules", [])
    for phase in table.get("phases", []):
        yield from phase.get("rules", [])


def _casts(rule: Mapping[str, Any]) -> dict[str, str]:
    """A rule's casts by operand."""
    precision = rule["precision"]
    if isinstance(precision, str):
        return dict.fromkeys(OPERANDS, precision)
    return {operand: precision[operand] for operand in OPERANDS if operand in precision}


def _accumulator(rule: Mapping[str, Any]) -> dict[str, str]:
    precision = rule["precision"]
    found = isinstance(precision, dict) and "accumulator" in precision
    return {"accumulator": precision["accumulator"]} if found else {}


def _with_field(cast: Cast, field: str, text: str) -> Cast:
    """The cast with one field changed; what was left to the usual stays so."""
    value = _READERS.get(field, str)(text)
    changed: dict[str, Any] = {field: value}
    now = {item: changed.get(item, getattr(cast, item)) for item in _CAST_FIELDS}
    usual = {
        "rule": (default_rule(cast.scale), lambda: default_rule(now["scale"])),
        "ratio": (
            default_ratio(cast.scale, cast.granularity, cast.rounding),
            lambda: default_ratio(now["scale"], now["granularity"], now["rounding"]),
        ),
        "overflow": (
            default_overflow(cast.element, cast.granularity),
            lambda: default_overflow(now["element"], now["granularity"]),
        ),
    }
    for item, (before, after) in usual.items():
        if item != field and getattr(cast, item) == before:
            changed[item] = after()
    return replace(cast, **changed)


def _choice(kind: str, choices: tuple[str, ...]) -> Callable[[str], str]:
    """A reader of one of some words, or of a beginning that is one's alone."""

    def read(text: str) -> str:
        found = [choice for choice in choices if choice == text] or [c for c in choices if c.startswith(text)]
        if len(found) != 1:
            raise unknown_name(kind, text, choices)
        return found[0]

    return read


def _granularity(text: str) -> Granularity:
    outer, cross, reduction = text.partition("x")
    if cross and outer.isdecimal() and reduction.isdecimal():
        return Granularity("block", int(outer), int(reduction))
    return Granularity(text)  # pyright: ignore[reportArgumentType]  # checked there


def _transform(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"transform is '{text}', expected 0 or the size of the transform, such as 16")
    return int(text)


def _ratio(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"ratio is '{text}', expected a fraction such as 3/4") from None


def _delayed(text: str) -> Any:
    found = None if text == "none" else parse_delayed(text)
    if found is None and text != "none":
        raise ValueError(f"delayed is '{text}', expected 'none', 'delayed' or a form like 'delayed(16,recent,1)'")
    return found


def _format_or_none(text: str) -> str | None:
    return None if text == "none" else text


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "granularity": _granularity,
        "scale": _format_or_none,
        "tensor_scale": _format_or_none,
        "rule": _choice("scaling rule", get_args(ScaleRule)),
        "ratio": _ratio,
        "delayed": _delayed,
        "rounding": _choice("rounding", get_args(Rounding)),
        "overflow": _choice("overflow", get_args(Overflow)),
        "transform": _transform,
        "signs": _choice("signs", get_args(Signs)),
    }
)
