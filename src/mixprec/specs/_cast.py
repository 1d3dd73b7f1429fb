"""A cast: format, granularity, scaling rule, rounding, overflow and transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, get_args

from ..formats import BLOCK_FORMATS, Format, Overflow, Rounding, get_format, unknown_name
from ._cast_checks import refusal
from ._delayed import Delayed
from ._granularity import Granularity
from ._kinds import FRACTION, TEXT, WHOLE, Kind, check_kinds, one_of

ScaleRule = Literal["exact", "floor", "ceil", "rceil", "even", "quest", "four-over-six"]
Signs = Literal["none", "fixed", "fresh"]

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "element": TEXT,
        "granularity": one_of(Granularity),
        "scale": one_of(str, optional=True),
        "tensor_scale": one_of(str, optional=True),
        "ratio": FRACTION,
        "delayed": one_of(Delayed, optional=True),
        "transform": WHOLE,
    }
)
_RULE_WORDS: dict[ScaleRule, str] = {"four-over-six": "4/6"}
_ROUNDING_WORDS: dict[Rounding, str] = {"nearest-even": "rne", "stochastic": "sr", "toward-zero": "rtz"}


@dataclass(frozen=True, kw_only=True)
class Cast:
    """How one tensor is brought to a format: ``value = decode(code) * scale``.

    ``str(cast)`` is the canonical one-line form, which ``parse_cast`` reads back; ``parse_cast`` also
    fills in the usual rule, ratio and overflow, which the constructor wants spelled out.

    Attributes:
        element: name of the element format.
        granularity: what shares a scale.
        scale: format of the shared scale; ``None`` when unscaled. Of a tensor or row: ``"fp32"``, or ``"e8m0"`` for a
            power of two. Of a block: these, or a float format of at most 8 bits such as ``"e4m3"`` or ``"ue5m3"``.
        tensor_scale: ``"fp32"`` for a second scale above a block's float scale of 8 bits, else ``None``.
        rule: how the scale comes from the amax. ``"exact"``: the amax becomes the largest element (up to the
            rounding of the scale). For e8m0, the power of two is ``"floor"`` (OCP MX: the largest elements may
            saturate), ``"ceil"`` (of the amax's exponent), ``"rceil"`` (of amax / largest: the smallest that never
            saturates) or ``"even"`` (of the amax rounded to the element's mantissa). ``"quest"``, for e2m1 alone, is
            the power of two at or below the scale that would clip a Gaussian of the block's standard deviation where
            that costs least (arXiv:2502.05003). ``"four-over-six"``: the better of scaling a block's amax to 6 and to
            4, by squared error, which spares E2M1 its widest gap (arXiv:2512.02010).
        ratio: the amax goes to ``ratio`` times what the rule says, so that stochastic rounding never saturates and
            stays unbiased: 16/17 under an E4M3 block scale (which its own rounding may have made smaller), 3/4 under a
            power of two by ``"floor"`` (arXiv:2502.20586). The values are not changed: the scale makes up for it.
        delayed: the tensor's amax is that of earlier passes; ``None``: its own, current.
        rounding: of the elements.
        overflow: what a value beyond the largest becomes; block casts always saturate.
        transform: 0, or the size of the Hadamard transform along the reduction (16, 32, 64, 128).
        signs: what the transform flips first: ``"none"``, the ``"fixed"`` pseudo-random vector, or a ``"fresh"`` one
            for every pass.

    Raises:
        ValueError: parts that do not go together; the message names the part and the reason.
        TypeError: a part of another kind.

    Example:
        >>> str(Cast(element="e4m3", granularity=Granularity("block", 1, 32), scale="e8m0", rule="rceil"))
        'mxfp8 rceil'
    """

    element: str
    granularity: Granularity
    scale: str | None = None
    tensor_scale: str | None = None
    rule: ScaleRule = "exact"
    ratio: Fraction = Fraction(1)
    delayed: Delayed | None = None
    rounding: Rounding = "nearest-even"
    overflow: Overflow = "saturate"
    transform: int = 0
    signs: Signs = "none"

    def __post_init__(self) -> None:
        check_kinds("cast", self, _KINDS)
        _check_names(self)
        problem = refusal(self)
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

    @property
    def is_random(self) -> bool:
        """Whether the values depend on random bits: by rounding or by fresh signs."""
        return self.is_stochastic or self.signs == "fresh"

    def __str__(self) -> str:
        words = [_head(self)]
        if self.rule != default_rule(self.scale):
            words.append(_RULE_WORDS.get(self.rule, self.rule))
        if self.ratio != default_ratio(self.scale, self.granularity, self.rounding):
            words.append(f"x{self.ratio.numerator}/{self.ratio.denominator}")
        if self.delayed is not None:
            words.append(str(self.delayed))
        if self.rounding != "nearest-even":
            words.append(_ROUNDING_WORDS[self.rounding])
        if self.overflow != default_overflow(self.element, self.granularity):
            words.append(self.overflow)
        if self.transform:
            words.append(f"{'ht' if self.signs == 'none' else 'rht'}{self.transform}")
            words[-1] += "-fresh" if self.signs == "fresh" else ""
        return " ".join(words)


def default_rule(scale: str | None) -> ScaleRule:
    """Give the rule that the one-line form leaves out: ``floor`` (OCP MX) for e8m0, else ``exact``."""
    return "floor" if scale == "e8m0" else "exact"


def default_ratio(scale: str | None, granularity: Granularity, rounding: Rounding) -> Fraction:
    """Give the ratio that the one-line form leaves out.

    A block scale of M mantissa bits may come out smaller by ``2**(M + 1) / (2**(M + 1) + 1)`` when it is rounded
    (16/17 for E4M3); stochastic rounding stays clear of the largest element by as much. Otherwise it is 1.
    """
    if granularity.kind != "block" or rounding != "stochastic" or scale in (None, "fp32", "e8m0"):
        return Fraction(1)
    steps: int = 1 << (get_format(scale).mantissa_bits + 1)
    return Fraction(steps, steps + 1)


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
    first = "" if kind != "block" and cast.scale == "fp32" and not second else f":{cast.scale}"
    return f"{cast.element}[{cast.granularity}{first}{second}]"


def _check_names(cast: Cast) -> None:
    fmt = get_format(cast.element)
    if fmt.kind == "exponent" or not fmt.signed:
        raise ValueError(f"element '{fmt.name}' is refused: it is a format of scales, {_lack(fmt)}")
    choices: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("scaling rule", cast.rule, get_args(ScaleRule)),
        ("rounding", cast.rounding, get_args(Rounding)),
        ("overflow", cast.overflow, get_args(Overflow)),
        ("signs", cast.signs, get_args(Signs)),
    )
    for kind, got, known in choices:
        if got not in known:
            raise unknown_name(kind, got, known)


def _lack(fmt: Format) -> str:
    return "without zero or sign" if fmt.kind == "exponent" else "without sign"
