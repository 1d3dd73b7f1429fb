"""What every backend must do: the numbers that a cast comes down to, and the methods that a backend has.

Arithmetic, shapes and the order of operations are given here once; `reference` is the readable form of
the same text, and every other backend equals it bit for bit (a NaN equals a NaN, whatever its payload).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from mixprec.formats import Format, get_format
from mixprec.specs import Cast

if TYPE_CHECKING:
    from torch import Tensor

Scaling = Literal["none", "tensor", "row", "mx", "two-level"]

E4M3_MAX = 448.0
LARGEST_QUANT_SCALE = 2.0**127
TRANSFORM_SIZES = (16, 32, 64, 128)
SIGN_SEED = 0x6D697870  # key of the Philox words whose bit 0 is the transform's fixed sign vector


@dataclass(frozen=True, kw_only=True)
class CastParameters:
    """A cast as numbers, the same for every backend.

    The element grid: a finite x lies between two neighbours whose spacing is ``2**u`` with
    ``u = max(floor(log2|x|), min_exponent) - mantissa_bits``; the exponent has no upper end while
    rounding, and a rounded magnitude above ``max_value`` becomes ``overflow_value`` with x's sign.

    Attributes:
        element: name of the element format, for messages.
        mantissa_bits: stored mantissa bits (integers: fractional bits).
        min_exponent: exponent of the smallest normal value (integers: 0).
        max_exponent: exponent of ``max_value``, ``emax`` of the MX rules.
        max_value: the largest finite magnitude.
        overflow_value: what a rounded magnitude above ``max_value`` becomes: ``max_value``, inf or NaN.
            (Toward zero it is ``max_value``; inside blocks it is always ``max_value``.)
        infinity_value: what an infinite element becomes: ``max_value``, inf or NaN.
        signed_zero: whether -0.0 is kept and negative values may round to it; else they give +0.0.
        bits: width of an element's code; rows of codes are little-endian bit streams of that width.
        exponent_bits: width of the exponent field in the code.
        bias: exponent bias of the code.
        integer: the code is ``value * 2**mantissa_bits`` in two's complement.
        nan_code: the code of NaN (positive, quiet; of FNUZ formats the code that would be -0), or -1 if the
            format has none (such an element is coded 0; its NaN scale, or the caller's check, tells).
        infinity_code: the code of +inf, or -1.
        rounding: of the elements.
        scaling: which of the five scale computations applies.
        outer: size of a block across the reduction (1 unless blocks are 2-D tiles).
        reduction: size of a block along the reduction.
        rule: MX exponent rule ("exact" for other scalings).
        target: the element magnitude that a block's amax is scaled to in a two-level cast: ``max_value``,
            or ``max_value * 16 / 17`` (fp64) with stochastic rounding; otherwise ``max_value``.
        transform: 0, or the size of the Hadamard transform along the reduction.
        random_signs: whether the transform flips signs first.
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
    rounding: Literal["nearest-even", "stochastic", "toward-zero"]
    scaling: Scaling
    outer: int
    reduction: int
    rule: Literal["exact", "floor", "ceil", "rceil", "even"]
    target: float
    transform: int
    random_signs: bool

    @property
    def stochastic(self) -> bool:
        """Whether random bits are needed."""
        return self.rounding == "stochastic"


@lru_cache(maxsize=1024)
def cast_parameters(cast: Cast) -> CastParameters:
    """The numbers of a cast.

    Raises:
        ValueError: the element format is unknown, or tensors cannot be rounded to it: one without subnormals
            or without mantissa bits.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> p = cast_parameters(parse_cast("mxfp4"))
        >>> p.scaling, p.max_value, p.max_exponent, p.reduction
        ('mx', 6.0, 2, 32)
    """
    element = get_format(cast.element)
    if not element.has_subnormals or element.mantissa_bits == 0:
        raise ValueError(
            f"tensors cannot be rounded to elements of {element.name!r}: expected a format with subnormals and at "
            "least one mantissa bit"
        )
    scaling = _scaling(cast)
    infinity_value = _infinity_value(element, cast, scaling)
    two_level_sr = scaling == "two-level" and cast.rounding == "stochastic"
    return CastParameters(
        element=cast.element,
        mantissa_bits=element.mantissa_bits,
        min_exponent=element.min_exponent,
        max_exponent=element.max_exponent,
        max_value=element.max_value,
        overflow_value=element.max_value if cast.rounding == "toward-zero" else infinity_value,
        infinity_value=infinity_value,
        signed_zero=element.has_negative_zero,
        bits=element.bits,
        exponent_bits=element.exponent_bits,
        bias=element.bias,
        integer=element.kind == "integer",
        nan_code=_nan_code(element),
        infinity_code=_infinity_code(element),
        rounding=cast.rounding,
        scaling=scaling,
        outer=max(cast.granularity.outer, 1),
        reduction=max(cast.granularity.reduction, 1),
        rule=cast.rule,
        target=element.max_value * 16 / 17 if two_level_sr else element.max_value,
        transform=cast.transform,
        random_signs=cast.random_signs,
    )


def _scaling(cast: Cast) -> Scaling:
    kind = cast.granularity.kind
    if kind == "block":
        return "two-level" if cast.tensor_scale else "mx"
    return kind


def _infinity_value(element: Format, cast: Cast, scaling: Scaling) -> float:
    if cast.overflow == "saturate" or scaling in ("mx", "two-level"):
        return element.max_value
    if element.has_infinity:
        return math.inf
    return element.max_value if element.nan == "none" else math.nan


def _top_exponent(element: Format) -> int:
    return ((1 << element.exponent_bits) - 1) << element.mantissa_bits


def _nan_code(element: Format) -> int:
    if element.nan == "none":
        return -1
    if element.nan == "negative-zero":
        return 1 << (element.bits - 1)
    if element.nan == "all-ones":
        return _top_exponent(element) | ((1 << element.mantissa_bits) - 1)
    return _top_exponent(element) | (1 << (element.mantissa_bits - 1))


def _infinity_code(element: Format) -> int:
    return _top_exponent(element) if element.has_infinity else -1


@runtime_checkable
class Backend(Protocol):
    """The methods of a backend.

    Inputs ``x`` are fp32, bf16 or fp16 tensors (widened to fp32 exactly) with any strides, possibly empty;
    dtype, number of dimensions and ``axis`` have been checked. Results are fresh, contiguous and fp32
    unless said otherwise. ``axis`` (0 or 1) is the axis of a matrix ``[R, C]`` that the reduction runs
    along. ``seed`` and ``offset`` are signed 64-bit integers (two's complement for Philox); they matter
    only where a cast's rounding is stochastic.

    Random bits: Philox-4x32-10, key ``(seed & 0xffffffff, seed >> 32)``, counter words 0 and 1 the 64-bit
    block counter, 2 and 3 the 64-bit offset, both low word first. Element i (C-order index in the matrix
    that is rounded: x, or the padded transform of x in its ``[R, C]`` layout, whatever the axis) uses word
    ``(i // 8) % 4`` at block counter ``(i // 32) * 8 + i % 8``. It is rounded away from zero if and only if
    that word ``< floor(2**32 * fraction)``.

    Non-finite amax (tensor, row, two-level: of the tensor or row; MX: of the block): all elements that
    share it are NaN, and so is the scale.
    """

    name: str

    def round(
        self, x: Tensor, parameters: CastParameters, seed: int, offset: int, *, out: Tensor | None = None
    ) -> Tensor:
        """Every element on its own (scaling is not applied); any number of dimensions; shape of x.

        Into ``out`` if given: contiguous fp32 of x's shape and device, no part of x.
        """
        ...

    def scaled(
        self,
        x: Tensor,
        parameters: CastParameters,
        axis: int,
        seed: int,
        offset: int,
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``(carrier, outer)`` with value = carrier * outer; the carrier into ``out`` if given, as in ``round``.

        The carrier has the shape of x, padded along ``axis`` to a multiple of the transform if there is
        one (it stays in the transformed space). ``outer`` is 0-d, or ``[R, 1]`` (axis 1) / ``[1, C]`` (axis
        0) for row scales; 1.0 for unscaled and MX casts. An unscaled cast gives the rounded x.

        - tensor, row: ``Q = 1 if a == 0 else min(fp32(fp64(max) / fp64(a)), 2**127)``;
          ``carrier = round(x * Q)``; ``outer = fp32(1 / Q)``.
        - mx: per tile (``outer`` x ``reduction``, smaller at the edges), a = amax, e = floor(log2 a) and the
          23-bit mantissa m exactly (subnormals normalised); E = e - emax (floor), + (m != 0) (ceil),
          + (m > mantissa(max)) (rceil), + carry of m + 2**(22 - M) (even); clamped to [-127, 127]; a == 0
          gives -127. ``carrier = round(x * 2**-E) * 2**E``, both products in fp32.
        - two-level: ``Q`` as for tensor with ``fp64(target * 448)`` in place of max; per tile
          ``b = fp32(a * Q)``; ``s = round_e4m3(fp32(fp64(b) / target))`` (nearest even, saturating at 448;
          0 becomes 1); ``enc = min(fp32(Q / s), 2**127)``; ``carrier = round(x * enc) * s``;
          ``outer = fp32(1 / Q)``. A NaN Q makes s NaN.
        """
        ...

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        seed: int,
        offset: int,
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``scaled(x, row, 1, seed, offset) + scaled(x, column, 0, seed, offset + 1)``; the carriers into ``out``."""
        ...

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude, 0-d fp32; NaN if there is a NaN; 0 if x is empty; any number of dimensions."""
        ...

    def hadamard(
        self, x: Tensor, size: int, signs: bool, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Orthonormal Walsh-Hadamard transform of groups of ``size`` (16, 32, 64 or 128) along ``axis``.

        Zero-padded along ``axis`` to a multiple of ``size``. Forward: signs (j is the index within the
        group; negative iff bit 0 of the Philox word of element j under seed ``SIGN_SEED``, offset 0, is 1),
        then for h = 1, 2, 4, ...: ``(a, b) -> (a + b, a - b)`` for elements j and j + h, then one product
        with ``fp32(1 / sqrt(size))``. Inverse: butterflies, product, then signs.
        Into ``out`` if given, which has the padded shape.
        """
        ...

    def quantize(
        self, x: Tensor, parameters: CastParameters, axis: int, seed: int, offset: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``(codes, scales, outer)``: the numbers of ``scaled`` as codes.

        With axis 0 the (transformed) matrix is transposed first, so that the reduction runs along rows.
        ``codes`` is uint8 ``[rows, ceil(columns * bits / 8)]``: each row a little-endian bit stream that
        starts at a byte (4 bits: low nibble first). Codes are sign | exponent | mantissa, or a byte in
        two's complement. ``scales`` is uint8 ``[ceil(rows / outer), ceil(columns / reduction)]``: E + 127
        (255: NaN) or the e4m3 code (0x7f: NaN); shape ``[0]`` for other casts. ``outer`` as in ``scaled``
        (so ``[R, 1]`` or ``[1, C]`` for row scales).
        """
        ...

    def dequantize(
        self,
        codes: Tensor,
        scales: Tensor,
        outer: Tensor,
        parameters: CastParameters,
        shape: Sequence[int],
        axis: int,
    ) -> Tensor:
        """``fp32(fp32(element * scale) * outer)`` in the layout ``[R, C]``.

        ``shape`` is that of the matrix that was rounded: x's, padded along ``axis`` if there is a transform,
        which is not undone here.
        """
        ...
