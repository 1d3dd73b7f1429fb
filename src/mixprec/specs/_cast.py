"""A cast: format, granularity, scaling rule, rounding, overflow and transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..formats import BLOCK_FORMATS, Overflow, Rounding, get_format, unknown_name

ScaleRule = Literal["exact", "floor", "ceil", "rceil", "even"]
GranularityKind = Literal["none", "tensor", "row", "block"]

TRANSFORM_SIZES = (16, 32, 64, 128)
MAX_BLOCK = 4096
_ROUNDING_WORDS: dict[Rounding, str] = {"nearest-even": "rne", "stochastic": "sr", "toward-zero": "rtz"}


@dataclass(frozen=True)
class Granularity:
    """What shares a scale.

    ``none``: unscaled. ``tensor``: one scale. ``row``: one scale per outer index (constant along the
    reduction). ``block``: one scale per ``outer`` x ``reduction`` tile of that GEMM's operand.

    Raises:
        ValueError: an unknown kind, a block without sizes from 1 to 4096, or sizes without a block.

    Example:
        >>> str(Granularity("block", 1, 32)), str(Granularity("row"))
        ('1x32', 'row')
    """

    kind: GranularityKind
    outer: int = 0
    reduction: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(GranularityKind):
            raise unknown_name("granularity", self.kind, get_args(GranularityKind))
        sizes = (self.outer, self.reduction)
        if self.kind == "block":
            if not all(1 <= size <= MAX_BLOCK for size in sizes):
                raise ValueError(f"block {self} is refused: each side must be 1 to {MAX_BLOCK}")
        elif sizes != (0, 0):
            raise ValueError(f"granularity '{self.kind}' got sizes {sizes}: only 'block' has sizes")

    def __str__(self) -> str:
        return f"{self.outer}x{self.reduction}" if self.kind == "block" else self.kind


@dataclass(frozen=True, kw_only=True)
class Cast:
    """How one tensor is brought to a format: ``value = decode(code) * scale``.

    ``str(cast)`` is the canonical one-line form, which ``parse_cast`` reads back; ``parse_cast`` also
    fills in the usual rule and overflow, which the constructor wants spelled out.

    Attributes:
        element: name of the element format.
        granularity: what shares a scale.
        scale: format of the shared scale: ``"fp32"`` (tensor, row), ``"e8m0"`` (MX blocks), ``"e4m3"``
            (NVFP4 blocks); ``None`` when unscaled.
        tensor_scale: ``"fp32"`` for a two-level scale, else ``None``.
        rule: how the scale comes from the amax. ``"exact"``: the amax becomes the largest element, for
            fp32 and two-level scales. For e8m0, the power of two is ``"floor"`` (OCP MX: the largest
            elements may saturate), ``"ceil"`` (of the amax's exponent), ``"rceil"`` (of amax / largest:
            the smallest that never saturates) or ``"even"`` (of the amax rounded to the element's mantissa).
        rounding: of the elements.
        overflow: what a value beyond the largest becomes; block casts always saturate.
        transform: 0, or the size of the Hadamard transform along the reduction (16, 32, 64, 128).
        random_signs: whether the transform flips signs by the fixed pseudo-random vector first.

    Raises:
        ValueError: parts that do not go together; the message names the part and the reason.

    Example:
        >>> str(Cast(element="e4m3", granularity=Granularity("block", 1, 32), scale="e8m0", rule="rceil"))
        'mxfp8 rceil'
    """

    element: str
    granularity: Granularity
    scale: str | None = None
    tensor_scale: str | None = None
    rule: ScaleRule = "exact"
    rounding: Rounding = "nearest-even"
    overflow: Overflow = "saturate"
    transform: int = 0
    random_signs: bool = False

    def __post_init__(self) -> None:
        _check_names(self)
        problem = _scale_problem(self) or _rule_problem(self) or _transform_problem(self)
        if problem:
            raise ValueError(f"cast '{self}' is refused: {problem}")

    @property
    def is_scaled(self) -> bool:
        """Whether elements share a scale."""
        return self.granularity.kind != "none"

    @property
    def is_stochastic(self) -> bool:
        """Whether the rounding needs random bits."""
        return self.rounding == "stochastic"

    def __str__(self) -> str:
        words = [_head(self)]
        if self.rule != default_rule(self.scale):
            words.append(self.rule)
        if self.rounding != "nearest-even":
            words.append(_ROUNDING_WORDS[self.rounding])
        if self.overflow != default_overflow(self.element, self.granularity):
            words.append(self.overflow)
        if self.transform:
            words.append(f"{'rht' if self.random_signs else 'ht'}{self.transform}")
        return " ".join(words)


def default_rule(scale: str | None) -> ScaleRule:
    """Give the rule that the one-line form leaves out: ``floor`` (OCP MX) for e8m0, else ``exact``."""
    return "floor" if scale == "e8m0" else "exact"


def default_overflow(element: str, granularity: Granularity) -> Overflow:
    """Give the overflow that the one-line form leaves out.

    Unscaled formats of 16 bits and more propagate, as the hardware's own casts do; narrower formats and
    everything with a scale saturate.
    """
    return "propagate" if granularity.kind == "none" and get_format(element).bits >= 16 else "saturate"


def _head(cast: Cast) -> str:
    """The part before the words: a block format's name where there is one, else element and bracket."""
    kind = cast.granularity.kind
    if kind == "none":
        return cast.element
    if kind == "block":
        tile = (cast.granularity.outer, cast.granularity.reduction)
        for name, block in BLOCK_FORMATS.items():
            parts = (block.element, block.block, block.scale, block.tensor_scale)
            if parts == (cast.element, tile, cast.scale, cast.tensor_scale):
                return name
        second = f"*{cast.tensor_scale}" if cast.tensor_scale else ""
        return f"{cast.element}[{cast.granularity}:{cast.scale}{second}]"
    return f"{cast.element}[{cast.granularity}]"


def _check_names(cast: Cast) -> None:
    fmt = get_format(cast.element)
    if fmt.kind == "exponent":
        raise ValueError(f"element '{fmt.name}' is refused: it is a format of scales, without zero or sign")
    choices: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("scaling rule", cast.rule, get_args(ScaleRule)),
        ("rounding", cast.rounding, get_args(Rounding)),
        ("overflow", cast.overflow, get_args(Overflow)),
    )
    for kind, got, known in choices:
        if got not in known:
            raise unknown_name(kind, got, known)


def _scale_problem(cast: Cast) -> str:
    kind = cast.granularity.kind
    scales = (cast.scale, cast.tensor_scale)
    if kind == "none":
        return "" if scales == (None, None) else "an unscaled cast has no scale format; name a granularity"
    if get_format(cast.element).exponent_bits == 8:
        return f"'{cast.element}' has the range of fp32, a scale gains nothing; leave out the granularity"
    if kind in ("tensor", "row"):
        if scales != ("fp32", None):
            return f"a {kind} scale is fp32; e8m0 and e4m3*fp32 scales belong to blocks such as [1x32:e8m0]"
        return ""
    if cast.scale == "fp32":
        return "blocks with fp32 scales are not in this version; use e8m0 or e4m3*fp32"
    if scales not in (("e8m0", None), ("e4m3", "fp32")):
        return "the scale of a block is e8m0 alone, or e4m3 under a tensor scale: e4m3*fp32"
    return ""


def _rule_problem(cast: Cast) -> str:
    if cast.scale == "e8m0":
        if cast.rule == "exact":
            return "rule 'exact' has no meaning for e8m0, a power of two; use floor, ceil, rceil or even"
    elif cast.rule != "exact":
        return f"rule '{cast.rule}' is for e8m0 scales; only 'exact' fits here"
    if cast.granularity.kind == "block" and cast.overflow != "saturate":
        return "elements of a block always saturate"
    return ""


def _transform_problem(cast: Cast) -> str:
    if cast.transform == 0:
        return "random_signs needs a transform size" if cast.random_signs else ""
    if cast.transform not in TRANSFORM_SIZES:
        return f"the transform's size is {cast.transform}, expected one of {', '.join(map(str, TRANSFORM_SIZES))}"
    tile = cast.granularity
    if tile.kind != "block" or tile.outer != 1:
        return "a transform needs blocks along the reduction, such as [1x32:e8m0]"
    if cast.transform % tile.reduction and tile.reduction % cast.transform:
        return f"the transform's size {cast.transform} and the block's {tile.reduction} must divide one another"
    return ""
