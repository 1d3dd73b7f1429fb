"""Values of record fields to JSON and back, by their declared types."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

Decode = Callable[[Any], Any]

_AS_IT_IS = frozenset((str, int, bool, types.NoneType))
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: object) -> object:
    """A value as JSON can hold it: a float that is not finite becomes ``"nan"``, ``"inf"`` or ``"-inf"``.

    Example:
        >>> to_json({"loss": float("inf"), "seeds": (0, 1)})
        {'loss': 'inf', 'seeds': [0, 1]}
    """
    if type(value) in _AS_IT_IS:  # most are: asked first, since asking for a Mapping takes ten times longer
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in cast(Mapping[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in cast(list[object], value)]
    return value


@functools.cache
def field_decoders(record_type: type[Any]) -> Mapping[str, Decode]:
    """For each field of a record, what turns its JSON into its value, or raises ``ValueError``."""
    hints = get_type_hints(record_type)
    return {field.name: _decoder(hints[field.name]) for field in fields(record_type)}


def _decoder(hint: Any) -> Decode:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return functools.partial(_one_of, arguments)
    if origin in (Union, types.UnionType):
        return functools.partial(_first_that_fits, tuple(_decoder(argument) for argument in arguments), hint)
    if origin is tuple:
        return functools.partial(_tuple, _decoder(arguments[0]))
    if typing.is_typeddict(hint):
        return functools.partial(_keys, {key: _decoder(value) for key, value in get_type_hints(hint).items()})
    if origin is not None and issubclass(origin, Mapping):
        return functools.partial(_mapping, _decoder(arguments[1]))
    if hint is float:
        return _float
    return functools.partial(_plain, hint)


def _plain(kind: type, value: Any) -> Any:
    # bool is an int to isinstance; a field is one or the other.
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return value


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _one_of(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise ValueError(f"{value!r} is none of {', '.join(map(str, choices))}")
    return value


def _first_that_fits(decoders: tuple[Decode, ...], hint: Any, value: Any) -> Any:
    for decode in decoders:
        try:
            return decode(value)
        except ValueError:
            continue
    raise ValueError(f"{value!r} is not of type {hint}")


def _tuple(decode: Decode, value: Any) -> tuple[Any, ...]:
    return tuple(decode(item) for item in cast(list[Any], _plain(list, value)))


def _mapping(decode: Decode, value: Any) -> dict[str, Any]:
    return {key: decode(item) for key, item in cast(dict[str, Any], _plain(dict, value)).items()}


def _keys(decoders: Mapping[str, Decode], value: Any) -> dict[str, Any]:
    found = cast(dict[str, Any], _plain(dict, value))
    if found.keys() != decoders.keys():
        raise ValueError(f"keys {sorted(found)} are not {sorted(decoders)}")
    return {key: decoders[key](item) for key, item in found.items()}
