"""A cast as the numbers that every backend works with."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mixprec.formats import Format, get_format
from mixprec.specs import Cast, Signs

Scaling = Literal["none", "tensor", "row", "block"]
ScaleKind = Literal["none", "fp32", "power", "float"]

LARGEST_QUANT_SCALE = 2.0**127
#: Where QuEST clips a Gaussian for the grid of E2M1 (largest value 6), in standard deviations: arXiv:2502.05003.
QUEST_REACH = 2.92247856 / 6.0
TRANSFORM_SIZES = (16, 32, 64, 128)
SIGN_SEED = 0x6D697870  # key of the Philox words whose bit 0 is the transform's fixed sign vector
SIGN_STREAM = 2**62  # offsets from here on give fresh sign vectors, so that none is also an element's random word


@dataclass(frozen=True, kw_only=True)
class ElementParameters:
    """A grid of numbers.

    A finite x lies between two neighbours whose spacing is ``2**u`` with ``u = max(floor(log2|x|), min_exponent) -
    mantissa_bits``; the exponent has no upper end while rounding, and a rounded magnitude above ``max_value`` becomes
    ``overflow_value`` with x's sign. With a ``table``, the grid is that instead: x goes to the nearest of its numbers
    (ties to the even place in ascending order), what lies beyond an end to that end, an infinity too.

    Attributes:
        element: name of the format, for messages.
        mantissa_bits: stored mantissa bits (integers: fractional bits).
        min_exponent: exponent of the smallest normal value (integers: 0).
        max_exponent: exponent of ``max_value``, ``emax`` of the MX rules.
        max_value: the largest finite magnitude (of a table: of both signs).
        overflow_value: what a rounded magnitude above ``max_value`` becomes: ``max_value``, inf or NaN.
            (Toward zero it is ``max_value``; inside blocks it is always ``max_value``.)
        infinity_value: what an infinite element becomes: ``max_value``, inf or NaN.
        signed_zero: whether -0.0 is kept and negative values may round to it; else they give +0.0.
        bits: width of a code; rows of codes are little-endian bit streams of that width.
        exponent_bits: width of the exponent field in the code.
        bias: exponent bias of the code.
        integer: the code is ``value * 2**mantissa_bits`` in two's complement.
        nan_code: the code of NaN (positive, quiet; of FNUZ formats the code that would be -0), or -1 if the
            format has none (such an element is coded as 0 is; its NaN scale, or the caller's check, tells).
        infinity_code: the code of +inf, or -1.
        table: the numbers in ascending order, or empty.
        table_codes: the code of each of them.
    """

    element: str
    mantissa_bits: int
    min_exponent: int
    max_exponent: int
    max_value: float
    overflow_value: float
    infinity_value: float
    signed_zero: bool
    bits: int
    exponent_bits: int
    bias: int
    integer: bool
    nan_code: int
    infinity_code: int
    table: tuple[float, ...]
    table_codes: tuple[int, ...]

    @property
    def sign_bits(self) -> int:
        """Width of the sign in a float's code: 1, or 0 for a format of scales."""
        return self.bits - self.exponent_bits - self.mantissa_bits


@dataclass(frozen=True, kw_only=True)
class CastParameters:
    """A cast as numbers, the same for every backend.

    Attributes:
        grid: where the elements go.
        rounding: of the elements.
        scaling: what shares a scale.
        scale: ``"fp32"``: ``1 / quant_scale``; ``"power"``: a power of two by ``rule``; ``"float"``: rounded to
            ``scale_grid``.
        outer: size of a block across the reduction (1 unless blocks are 2-D tiles).
        reduction: size of a block along the reduction.
        rule: exponent rule of a power of two ("exact" for other scales).
        target: the element magnitude that an amax is scaled to, fp64: ``max_value * ratio / 2**margin``; of a power of
            two ``max_value``.
        second_target: of the choice 4/6 the other target, 4; otherwise 0.
        prescale: of a power of two ``fp32(ratio)``, by which elements are multiplied besides (margin included:
            ``fp32(ratio / 2**margin)``); otherwise 1.
        scale_grid: the format of float block scales, saturating; otherwise ``None``.
        scale_limit: what the tensor's largest block scale is brought to under a tensor scale: the scale format's
            largest value, under the choice 4/6 its top power of two (256), which leaves room for 3/2 of it; without a
            tensor scale 0.
        transform: 0, or the size of the Hadamard transform along the reduction.
        signs: what the transform flips first.
        delayed: whether the amax of the tensor is given.
    """

    grid: ElementParameters
    rounding: Literal["nearest-even", "stochastic", "toward-zero"]
    scaling: Scaling
    scale: ScaleKind
    outer: int
    reduction: int
    rule: Literal["exact", "floor", "ceil", "rceil", "even", "quest"]
    target: float
    second_target: float
    prescale: float
    scale_grid: ElementParameters | None
    scale_limit: float
    transform: int
    signs: Signs
    delayed: bool

    @property
    def stochastic(self) -> bool:
        """Whether elements are rounded by random bits."""
        return self.rounding == "stochastic"

    @property
    def random(self) -> bool:
        """Whether random bits are needed at all: for the rounding or for fresh signs."""
        return self.stochastic or self.signs == "fresh"

    @property
    def two_level(self) -> bool:
        """Whether block scales stand under a tensor scale."""
        return self.scale_limit > 0.0

    @property
    def tile(self) -> tuple[int, int]:
        """Sizes of a block, (outer, reduction)."""
        return self.outer, self.reduction

    def matrix_tile(self, axis: int) -> tuple[int, int]:
        """Rows and columns of a block in a matrix whose reduction runs along ``axis``."""
        return (self.outer, self.reduction) if axis == 1 else (self.reduction, self.outer)


@lru_cache(maxsize=1024)
def cast_parameters(cast: Cast) -> CastParameters:
    """The numbers of a cast.

    Raises:
        ValueError: the element format is unknown, or tensors cannot be rounded to it: one without subnormals
            or without mantissa bits.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> p = cast_parameters(parse_cast("mxfp4"))
        >>> p.scaling, p.scale, p.grid.max_value, p.grid.max_exponent, p.reduction
        ('block', 'power', 6.0, 2, 32)
    """
    element = get_format(cast.element)
    margin = cast.delayed.margin if cast.delayed else 0
    power = cast.scale == "e8m0"
    scale = get_format(cast.scale) if cast.scale not in (None, "fp32", "e8m0") else None
    choice = cast.rule == "four-over-six"
    shrink = cast.ratio.numerator / (cast.ratio.denominator * 2.0**margin)
    exact = element.max_value * cast.ratio.numerator / cast.ratio.denominator / 2.0**margin
    return CastParameters(
        grid=element_parameters(
            element, saturate=cast.overflow == "saturate", toward_zero=cast.rounding == "toward-zero"
        ),
        rounding=cast.rounding,
        scaling=cast.granularity.kind,
        scale="none" if cast.scale is None else "power" if power else "fp32" if scale is None else "float",
        outer=max(cast.granularity.outer, 1),
        reduction=max(cast.granularity.reduction, 1),
        rule="exact" if cast.rule == "four-over-six" else cast.rule,
        target=element.max_value if power else exact,
        second_target=4.0 if choice else 0.0,
        prescale=_fp32(shrink) if power else 1.0,
        scale_grid=element_parameters(scale, saturate=True, toward_zero=False) if scale else None,
        scale_limit=_scale_limit(scale, choice) if scale and cast.tensor_scale else 0.0,
        transform=cast.transform,
        signs=cast.signs,
        delayed=cast.delayed is not None,
    )


def element_parameters(fmt: Format, *, saturate: bool, toward_zero: bool) -> ElementParameters:
    """The numbers of a format.

    Raises:
        ValueError: tensors cannot be rounded to it.
    """
    if fmt.kind != "table" and (not fmt.has_subnormals or fmt.mantissa_bits == 0):
        raise ValueError(
            f"tensors cannot be rounded to elements of {fmt.name!r}: expected a format with subnormals and at "
            "least one mantissa bit"
        )
    infinity_value = fmt.max_value if saturate else _propagated(fmt)
    return ElementParameters(
        element=fmt.name,
        mantissa_bits=fmt.mantissa_bits,
        min_exponent=fmt.min_exponent,
        max_exponent=fmt.max_exponent,
        max_value=fmt.max_value,
        overflow_value=fmt.max_value if toward_zero else infinity_value,
        infinity_value=infinity_value,
        signed_zero=fmt.has_negative_zero,
        bits=fmt.bits,
        exponent_bits=fmt.exponent_bits,
        bias=fmt.bias,
        integer=fmt.kind == "integer",
        nan_code=_nan_code(fmt),
        infinity_code=_top_exponent(fmt) if fmt.has_infinity else -1,
        table=fmt.grid,
        table_codes=tuple(fmt.values.index(value) for value in fmt.grid),
    )


def _propagated(fmt: Format) -> float:
    if fmt.has_infinity:
        return math.inf
    return fmt.max_value if fmt.nan == "none" else math.nan


def _scale_limit(scale: Format, choice: bool) -> float:
    return 2.0**scale.max_exponent if choice else scale.max_value


def _fp32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _top_exponent(fmt: Format) -> int:
    return ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits


def _nan_code(fmt: Format) -> int:
    if fmt.nan == "none":
        return -1
    if fmt.nan == "negative-zero":
        return 1 << (fmt.bits - 1)
    if fmt.nan == "all-ones":
        return _top_exponent(fmt) | ((1 << fmt.mantissa_bits) - 1)
    return _top_exponent(fmt) | (1 << (fmt.mantissa_bits - 1))
