"""Which parts of a cast go together: one reason for each refusal."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..formats import Format, get_format

if TYPE_CHECKING:
    from ._cast import Cast

TRANSFORM_SIZES = (16, 32, 64, 128)
POWER_RULES = ("floor", "ceil", "rceil", "even", "quest")
# Significant bits of an element and of its block's scale together: a carrier of as many multiplies exactly in fp32.
CARRIER_BITS = 12
# Of ratios: finer than any step of a scale of 8 bits, and far from the ends of fp32.
MAX_DENOMINATOR = 1024


def refusal(cast: Cast) -> str:
    """Say why a cast's parts contradict each other, or nothing."""
    checks = (
        _scale_problem,
        _tensor_scale_problem,
        _rule_problem,
        _ratio_problem,
        _delayed_problem,
        _transform_problem,
    )
    return next((problem for check in checks if (problem := check(cast))), "")


def _scale_problem(cast: Cast) -> str:
    kind = cast.granularity.kind
    if kind == "none":
        return "" if cast.scale is None else "an unscaled cast has no scale format; name a granularity"
    if get_format(cast.element).exponent_bits == 8:
        return f"'{cast.element}' has the range of fp32, a scale gains nothing; leave out the granularity"
    if cast.scale is None:
        return "a scaled cast needs the format of its scale: fp32, e8m0, or (for blocks) e4m3, ue5m3, ..."
    if cast.scale in ("fp32", "e8m0"):
        return ""
    if kind in ("tensor", "row"):
        return f"a {kind} scale is fp32 or e8m0 (a power of two): a narrower one saves nothing there"
    return _block_scale_problem(cast, get_format(cast.scale))


def _block_scale_problem(cast: Cast, scale: Format) -> str:
    if scale.kind != "float":
        return f"'{scale.name}' is no format for block scales: expected fp32, e8m0 or a float of at most 8 bits"
    if scale.bits > 8:
        return (
            f"a block scale of '{scale.name}' takes {scale.bits} bits and is kept in a byte: expected a float of at "
            "most 8 bits, fp32 or e8m0"
        )
    if scale.mantissa_bits == 0 or not scale.has_subnormals:
        return f"a block scale is rounded to '{scale.name}', which must have subnormals and mantissa bits (or be e8m0)"
    if scale.nan == "none":
        return f"'{scale.name}' has no NaN, which a block's scale needs to tell of a fault in the block"
    element = get_format(cast.element)
    bits = element.significant_bits + scale.significant_bits
    if bits > CARRIER_BITS:
        return (
            f"numbers of '{element.name}' have up to {element.significant_bits} significant bits, times a scale of "
            f"'{scale.name}' {bits}, and products of more than {CARRIER_BITS} each are not exact in fp32; use an fp32 "
            "or e8m0 scale"
        )
    return ""


def _tensor_scale_problem(cast: Cast) -> str:
    if cast.tensor_scale is None:
        return ""
    if cast.tensor_scale != "fp32":
        return f"the tensor scale is '{cast.tensor_scale}', expected fp32"
    if cast.granularity.kind != "block" or cast.scale in ("fp32", "e8m0"):
        return "a second scale belongs above block scales of few exponent bits, such as e4m3*fp32"
    return ""


def _rule_problem(cast: Cast) -> str:
    is_block = cast.granularity.kind == "block"
    if is_block and cast.overflow != "saturate":
        return "elements of a block always saturate"
    if cast.scale == "e8m0":
        if cast.rule not in POWER_RULES:
            return f"rule '{cast.rule}' has no meaning for e8m0, a power of two; use {', '.join(POWER_RULES)}"
        if cast.rule == "quest" and not (is_block and cast.element == "e2m1"):
            return "rule 'quest' knows the clipping of e2m1 blocks alone"
        return ""
    if cast.rule in POWER_RULES:
        return f"rule '{cast.rule}' is for e8m0 scales; only 'exact' or 'four-over-six' fit here"
    if cast.rule == "four-over-six":
        if not is_block or cast.element != "e2m1":
            return "the choice 4/6 is about the gap between 4 and 6 of e2m1 blocks"
        if cast.rounding != "nearest-even":
            return "the choice 4/6 compares the errors of rounding to nearest"
        if cast.scale != "fp32" and 2 * get_format(str(cast.scale)).max_value < 3 * _top_power(str(cast.scale)):
            return f"'{cast.scale}' cannot hold a scale that is larger by 3/2"
    return ""


def _top_power(name: str) -> float:
    return 2.0 ** get_format(name).max_exponent


def _ratio_problem(cast: Cast) -> str:
    if not 0 < cast.ratio <= 1 or cast.ratio.denominator > MAX_DENOMINATOR:
        return (
            f"the ratio is {cast.ratio}, expected a fraction above 0 and up to 1, of a denominator up to "
            f"{MAX_DENOMINATOR}"
        )
    if cast.ratio != Fraction(1):
        if cast.granularity.kind == "none":
            return "a ratio is about a scale; name a granularity"
        if cast.rule == "four-over-six":
            return "the choice 4/6 has its own targets; leave out the ratio"
    return ""


def _delayed_problem(cast: Cast) -> str:
    if cast.delayed is None or (cast.granularity.kind == "tensor" and not cast.transform):
        return ""
    return "a delayed scale is one for the whole tensor, without a transform: [tensor]"


def _transform_problem(cast: Cast) -> str:
    if cast.transform == 0:
        return "signs need a transform size" if cast.signs != "none" else ""
    if cast.transform not in TRANSFORM_SIZES:
        return f"the transform's size is {cast.transform}, expected one of {', '.join(map(str, TRANSFORM_SIZES))}"
    tile = cast.granularity
    if tile.kind == "none":
        return "a transform spreads outliers over what shares a scale, and nothing does here; name a granularity"
    if tile.kind == "block" and cast.transform % tile.reduction and tile.reduction % cast.transform:
        return (
            f"the transform's size {cast.transform} and the block's {tile.reduction} must divide one another: "
            "a block holds whole transforms, or lies in one"
        )
    return ""
