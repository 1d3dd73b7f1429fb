"""Plain values of a state that JSON has no words for, and their way back."""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

_WIDEST_NUMBER = 2**63


@dataclass(frozen=True)
class Leaf:
    """How a value without parts is written.

    Attributes:
        tag: that marks it in JSON.
        encode: value to text.
        decode: text to value.
    """

    tag: str
    encode: Callable[[Any], str]
    decode: Callable[[str], Any]


@dataclass(frozen=True)
class Container:
    """How a value made of others is written.

    Attributes:
        tag: that marks it in JSON.
        is_mapping: whether it is written as pairs.
        build: from a list of values or of pairs.
    """

    tag: str
    is_mapping: bool
    build: Callable[[list[Any]], Any]


def _float_text(value: float) -> str:
    return struct.pack(">d", value).hex()


def _float_value(text: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text))[0])


def _complex_value(text: str) -> complex:
    real, imaginary = (_float_value(part) for part in text.split())
    return complex(real, imaginary)


def _dtype_value(text: str) -> torch.dtype:
    found = getattr(torch, text, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {text}")
    return found


def dtype_text(dtype: torch.dtype) -> str:
    """Write a dtype's name.

    Example:
        >>> dtype_text(torch.bfloat16)
        'bfloat16'
    """
    return str(dtype).removeprefix("torch.")


#: By the exact type; what JSON writes exactly (``is_plain``) does not come here.
LEAVES: Mapping[type, Leaf] = MappingProxyType(
    {
        int: Leaf("$int", hex, lambda text: int(text, 16)),
        float: Leaf("$float", _float_text, _float_value),
        complex: Leaf("$complex", lambda z: f"{_float_text(z.real)} {_float_text(z.imag)}", _complex_value),
        bytes: Leaf("$bytes", lambda b: base64.b64encode(b).decode("ascii"), base64.b64decode),
        torch.dtype: Leaf("$dtype", dtype_text, _dtype_value),
        torch.device: Leaf("$device", str, torch.device),
    }
)

CONTAINERS: Mapping[type, Container] = MappingProxyType(
    {
        tuple: Container("$tuple", False, tuple),
        torch.Size: Container("$size", False, torch.Size),
        set: Container("$set", False, set),
        frozenset: Container("$frozenset", False, frozenset),
        dict: Container("$dict", True, dict),
        OrderedDict: Container("$ordered", True, OrderedDict),
        Counter: Container("$counter", True, lambda pairs: Counter(dict(pairs))),
    }
)


def is_plain(value: object) -> bool:
    """Whether JSON writes a value exactly as it is.

    Example:
        >>> is_plain(0.1), is_plain(float("inf")), is_plain(2**64)
        (True, False, False)
    """
    if value is None or type(value) in (bool, str):
        return True
    if type(value) is int:
        return abs(value) < _WIDEST_NUMBER
    return type(value) is float and math.isfinite(value)
