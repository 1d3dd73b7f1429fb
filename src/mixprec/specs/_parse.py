"""The one-line form of a cast: ``element[block:scale*tensor-scale] rule rounding overflow transform``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, get_args

from ..formats import (
    BLOCK_ALIASES,
    BLOCK_FORMATS,
    FORMATS,
    Overflow,
    Rounding,
    get_block_format,
    is_generic,
    unknown_format,
    unknown_name,
)
from ._cast import Cast, ScaleRule, Signs, default_overflow, default_ratio, default_rule
from ._cast_checks import TRANSFORM_SIZES
from ._delayed import parse_delayed
from ._granularity import Granularity
from ._kinds import check_text

_Value = TypeVar("_Value")

_HEAD = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<bracket>[^\[\]]*)\])?")
_BRACKET = re.compile(r"(?P<tile>[^:]+)(?::(?P<scale>[^:*]+)(?:\*(?P<second>[^:*]+))?)?")
_TILE = re.compile(r"([0-9]+)x([0-9]+)")

_RATIO = re.compile(r"x([0-9]+)/([0-9]+)")

_RULES: dict[str, ScaleRule] = {"4/6" if rule == "four-over-six" else rule: rule for rule in get_args(ScaleRule)}
_ROUNDINGS: dict[str, Rounding] = {"rne": "nearest-even", "sr": "stochastic", "rtz": "toward-zero"}
_OVERFLOWS: dict[str, Overflow] = {word: word for word in get_args(Overflow)}
_SIGNS: dict[str, Signs] = {"ht{}": "none", "rht{}": "fixed", "rht{}-fresh": "fresh"}
_TRANSFORMS: dict[str, tuple[int, Signs]] = {
    word.format(size): (size, signs) for word, signs in _SIGNS.items() for size in TRANSFORM_SIZES
}


@dataclass(frozen=True)
class _Head:
    element: str
    granularity: Granularity
    scale: str | None
    tensor_scale: str | None


def parse_cast(text: str) -> Cast:
    """Read the one-line form of a cast.

    The form is ``element[block:scale*tensor-scale]`` or a block format's name, then words in any order:
    a rule (``floor``, ``ceil``, ``rceil``, ``even``, ``exact``, ``4/6``), a ratio (``x3/4``), a delayed scale
    (``delayed``, ``delayed(16,recent,1)``), a rounding (``rne``, ``sr``, ``rtz``), an overflow (``saturate``,
    ``propagate``), a transform (``rht32``: random signs, then Hadamard; ``rht32-fresh``: signs that change with
    every pass; ``ht32``: Hadamard alone). The block is (outer, reduction) of that GEMM's operand.

    Args:
        text: e.g. ``"bf16"``, ``"e4m3[tensor]"``, ``"e4m3[1x32:e8m0] rceil"``, ``"nvfp4 sr rht16"``.

    Returns:
        The cast. Left out, the rule is ``floor`` for e8m0 scales and ``exact`` otherwise, the rounding is
        to nearest-even, the ratio is 1 (16/17 for stochastic rounding under e4m3 block scales), and the overflow
        propagates for unscaled formats of 16 bits or more and saturates otherwise. ``str`` of the cast leaves out the
        same and parses to the same cast.

    Raises:
        ValueError: what cannot be read, or parts that do not go together.
        TypeError: no text.

    Example:
        >>> str(parse_cast("e2m1[1x16:e4m3*fp32] rht16 sr"))
        'nvfp4 sr rht16'
        >>> parse_cast("mxfp8 rceil") == parse_cast("e4m3[1x32:e8m0] rceil")
        True
    """
    check_text("cast", text, "mxfp8 rceil")
    return _parsed(text)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> Cast:
    words = text.split()
    if not words:
        raise ValueError("an empty cast: expected a form like 'bf16', 'e4m3[tensor]' or 'mxfp8 rceil'")
    head, words = _parse_head(words[0], text), words[1:]
    readers = (parse_delayed, _ratio_of)
    special = {word for word in words if any(reader(word) is not None for reader in readers)}
    known = [*_RULES, *_ROUNDINGS, *_OVERFLOWS, *_TRANSFORMS]
    for word in words:
        if word not in known and word not in special:
            raise unknown_name(f"word in cast '{text}':", word, [*known, "delayed", "x3/4"])
    rule: ScaleRule | None = _take(words, _RULES.get, text)
    rounding: Rounding | None = _take(words, _ROUNDINGS.get, text)
    rounding = rounding or "nearest-even"
    overflow: Overflow | None = _take(words, _OVERFLOWS.get, text)
    transform, signs = _take(words, _TRANSFORMS.get, text) or (0, "none")
    ratio = _take(words, _ratio_of, text)
    return Cast(
        element=head.element,
        granularity=head.granularity,
        scale=head.scale,
        tensor_scale=head.tensor_scale,
        rule=rule or default_rule(head.scale),
        ratio=default_ratio(head.scale, head.granularity, rounding) if ratio is None else ratio,
        delayed=_take(words, parse_delayed, text),
        rounding=rounding,
        overflow=overflow or default_overflow(head.element, head.granularity),
        transform=transform,
        signs=signs,
    )


def _ratio_of(word: str) -> Fraction | None:
    found = _RATIO.fullmatch(word)
    if found and int(found[2]) == 0:
        raise ValueError(f"the ratio '{word}' has no value: expected a fraction such as x3/4")
    return Fraction(int(found[1]), int(found[2])) if found else None


def _take(words: list[str], read: Callable[[str], _Value | None], text: str) -> _Value | None:
    """The one word that ``read`` knows, as its value."""
    found = [word for word in words if read(word) is not None]
    if len(found) > 1:
        raise ValueError(f"cast '{text}' has '{found[0]}' and '{found[1]}': give one of them")
    return read(found[0]) if found else None


def _parse_head(head: str, text: str) -> _Head:
    found = _HEAD.fullmatch(head)
    if not found:
        raise ValueError(f"cast '{text}' begins with '{head}': expected element or element[block:scale]")
    name, bracket = found["name"], found["bracket"]
    if name in BLOCK_FORMATS or name in BLOCK_ALIASES:
        if bracket is not None:
            raise ValueError(f"cast '{text}': '{name}' has its block and scale already; leave out [{bracket}]")
        block = get_block_format(name)
        return _Head(block.element, Granularity("block", *block.block), block.scale, block.tensor_scale)
    if name not in FORMATS and not is_generic(name):
        raise unknown_format(name, [*FORMATS, *BLOCK_FORMATS, *BLOCK_ALIASES])
    if bracket is None:
        return _Head(name, Granularity("none"), None, None)
    return _parse_bracket(name, bracket, text)


def _parse_bracket(name: str, bracket: str, text: str) -> _Head:
    found = _BRACKET.fullmatch(bracket)
    tile = _TILE.fullmatch(found["tile"]) if found else None
    if found and found["tile"] in ("tensor", "row"):
        granularity = Granularity("tensor" if found["tile"] == "tensor" else "row")
        return _Head(name, granularity, found["scale"] or "fp32", found["second"])
    if not found or not tile:
        raise ValueError(f"cast '{text}' has [{bracket}]: expected [tensor], [row], [1x32:e8m0] or [1x16:e4m3*fp32]")
    if not found["scale"]:
        raise ValueError(f"cast '{text}': a block needs the format of its scale, such as [{bracket}:e8m0]")
    granularity = Granularity("block", int(tile[1]), int(tile[2]))
    return _Head(name, granularity, found["scale"], found["second"])
