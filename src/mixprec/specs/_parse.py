"""The one-line form of a cast: ``element[block:scale*tensor-scale] rule rounding overflow transform``."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TypeVar, get_args

from ..formats import (
    BLOCK_ALIASES,
    BLOCK_FORMATS,
    FORMATS,
    Overflow,
    Rounding,
    get_block_format,
    is_generic,
    unknown_name,
)
from ._cast import TRANSFORM_SIZES, Cast, Granularity, ScaleRule, default_overflow, default_rule

_Value = TypeVar("_Value")

_HEAD = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<bracket>[^\[\]]*)\])?")
_BRACKET = re.compile(r"(?P<tile>[^:]+)(?::(?P<scale>[^:*]+)(?:\*(?P<second>[^:*]+))?)?")
_TILE = re.compile(r"([0-9]+)x([0-9]+)")

_RULES: dict[str, ScaleRule] = {rule: rule for rule in get_args(ScaleRule)}
_ROUNDINGS: dict[str, Rounding] = {"rne": "nearest-even", "sr": "stochastic", "rtz": "toward-zero"}
_OVERFLOWS: dict[str, Overflow] = {word: word for word in get_args(Overflow)}
_TRANSFORMS: dict[str, tuple[int, bool]] = {
    f"{prefix}{size}": (size, prefix == "rht") for prefix in ("rht", "ht") for size in TRANSFORM_SIZES
}


@dataclass(frozen=True)
class _Head:
    element: str
    granularity: Granularity
    scale: str | None
    tensor_scale: str | None


@functools.lru_cache(maxsize=1024)
def parse_cast(text: str) -> Cast:
    """Read the one-line form of a cast.

    The form is ``element[block:scale*tensor-scale]`` or a block format's name, then words in any order:
    a rule (``floor``, ``ceil``, ``rceil``, ``even``, ``exact``), a rounding (``rne``, ``sr``, ``rtz``),
    an overflow (``saturate``, ``propagate``), a transform (``rht32``: random signs, then Hadamard; ``ht32``:
    Hadamard alone). The block is (outer, reduction) of that GEMM's operand.

    Args:
        text: e.g. ``"bf16"``, ``"e4m3[tensor]"``, ``"e4m3[1x32:e8m0] rceil"``, ``"nvfp4 sr rht16"``.

    Returns:
        The cast. Left out, the rule is ``floor`` for e8m0 scales and ``exact`` otherwise, the rounding is
        to nearest-even, and the overflow propagates for unscaled formats of 16 bits or more and saturates
        otherwise. ``str`` of the cast leaves out the same and parses to the same cast.

    Raises:
        ValueError: what cannot be read, or parts that do not go together.

    Example:
        >>> str(parse_cast("e2m1[1x16:e4m3*fp32] rht16 sr"))
        'nvfp4 sr rht16'
        >>> parse_cast("mxfp8 rceil") == parse_cast("e4m3[1x32:e8m0] rceil")
        True
    """
    words = text.split()
    if not words:
        raise ValueError("an empty cast: expected a form like 'bf16', 'e4m3[tensor]' or 'mxfp8 rceil'")
    head = _parse_head(words[0], text)
    rule = _take(words[1:], _RULES, default_rule(head.scale), text)
    rounding = _take(words[1:], _ROUNDINGS, "nearest-even", text)
    overflow = _take(words[1:], _OVERFLOWS, default_overflow(head.element, head.granularity), text)
    transform, random_signs = _take(words[1:], _TRANSFORMS, (0, False), text)
    known = [*_RULES, *_ROUNDINGS, *_OVERFLOWS, *_TRANSFORMS]
    for word in words[1:]:
        if word not in known:
            raise unknown_name(f"word in cast '{text}':", word, known)
    return Cast(
        element=head.element,
        granularity=head.granularity,
        scale=head.scale,
        tensor_scale=head.tensor_scale,
        rule=rule,
        rounding=rounding,
        overflow=overflow,
        transform=transform,
        random_signs=random_signs,
    )


def _take(words: list[str], known: dict[str, _Value], default: _Value, text: str) -> _Value:
    found = [word for word in words if word in known]
    if len(found) > 1:
        raise ValueError(f"cast '{text}' has '{found[0]}' and '{found[1]}': give one of them")
    return known[found[0]] if found else default


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
        raise unknown_name("format", name, [*FORMATS, *BLOCK_FORMATS, *BLOCK_ALIASES])
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
