"""What every backend must do.

Arithmetic, shapes and the order of operations are given here once; `reference` is the readable form of
the same text, and every other backend equals it bit for bit (a NaN equals a NaN, whatever its payload).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ._parameters import SIGN_SEED, CastParameters

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Draw:
    """Where random bits come from; signed 64-bit integers (two's complement for Philox).

    Attributes:
        seed: key of the generator.
        offset: of the elements' random words.
        sign_offset: of a fresh sign vector.
    """

    seed: int = 0
    offset: int = 0
    sign_offset: int = 0


@dataclass(frozen=True)
class SignKey:
    """The Philox key and offset of a transform's sign vector."""

    seed: int
    offset: int


FIXED_SIGNS = SignKey(SIGN_SEED, 0)


def sign_key(parameters: CastParameters, draw: Draw) -> SignKey | None:
    """The key of a cast's sign vector; ``None`` where nothing is flipped."""
    if parameters.signs == "none":
        return None
    return FIXED_SIGNS if parameters.signs == "fixed" else SignKey(draw.seed, draw.sign_offset)


@dataclass(frozen=True, kw_only=True)
class Sums:
    """A narrow accumulator: what partial sums of a product are rounded to.

    Attributes:
        mantissa_bits: stored mantissa bits of the accumulator, 1 to 22.
        rounding: after each addition.
        promote_every: after as many products the accumulator is added to an fp32 sum and starts at zero; 0: never.
    """

    mantissa_bits: int
    rounding: Literal["nearest-even", "toward-zero"]
    promote_every: int = 0


@runtime_checkable
class Backend(Protocol):
    """The methods of a backend.

    Inputs ``x`` are fp32, bf16 or fp16 tensors (widened to fp32 exactly) with any strides, possibly empty;
    dtype, number of dimensions and ``axis`` have been checked. Results are fresh, contiguous and fp32
    unless said otherwise; ``out``, where given, is fp32, contiguous, of the result's shape and device, and no part
    of x. ``axis`` (0 or 1) is the axis of a matrix ``[R, C]`` that the reduction runs along. A tile covers ``outer`` x
    ``reduction`` elements of (outer axis, reduction axis), fewer at the edges; matrices with one number per tile are
    laid out as the matrix is: ``[ceil(R / tile rows), ceil(C / tile columns)]``.

    Random bits: Philox-4x32-10, key ``(seed & 0xffffffff, seed >> 32)``, counter words 0 and 1 the 64-bit
    block counter, 2 and 3 the 64-bit offset, both low word first. Element i (C-order index in the matrix
    that is rounded: x, or the padded transform of x in its ``[R, C]`` layout, whatever the axis) uses word
    ``(i // 8) % 4`` at block counter ``(i // 32) * 8 + i % 8``. It is rounded away from zero if and only if
    that word ``< floor(2**32 * fraction)``; in a table ``fraction = fp64(|x| - low) / fp64(high - low)`` of the
    neighbours' magnitudes.

    Non-finite amax (of whatever shares a scale, and of the tensor where there is a tensor scale): all elements under it
    are NaN, and so is the scale.
    """

    name: str

    def round(self, x: Tensor, parameters: CastParameters, draw: Draw, *, out: Tensor | None = None) -> Tensor:
        """Every element on its own (scaling is not applied); any number of dimensions; shape of x."""
        ...

    def scaled(
        self,
        x: Tensor,
        parameters: CastParameters,
        axis: int,
        draw: Draw,
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``(carrier, outer)`` with value = carrier * outer.

        The carrier has the shape of x, padded with zeros along ``axis`` to a multiple of the transform if there is one
        (it stays in the transformed space). ``outer`` is 0-d; ``[R, 1]`` (axis 1) or ``[1, C]`` (axis 0) for row
        scales; one number per tile for fp32 block scales. An unscaled cast gives the rounded x and 1.

        ``a`` is the amax of the tensor, row or tile, after the transform; M, emax: of the element; r: ``prescale``.

        - power: e = floor(log2 a) and the 23-bit mantissa m exactly (subnormals normalised); E = e - emax (floor),
          + (m != 0) (ceil), + (m > mantissa(max)) (rceil), + carry of m + 2**(22 - M) (even); clamped to
          [-127, 127]; a == 0 gives -127. ``q = round(x * (r * 2**-E))``. Blocks: ``carrier = q * 2**E``, outer =
          ``fp32(1 / r)``. Tensor, row: ``carrier = q``, ``outer = fp32(2**E / r)``. (A table's M is 0.)
        - power by the rule quest: E = floor(log2(QUEST_REACH * deviation)), clamped alike (deviation 0: -127), with
          the fp64 ``deviation = sqrt(max(S2 / n - (S1 / n) * (S1 / n), 0))`` of the n elements that the tile has; S1
          and S2 are their sum and sum of squares, added as for the choice 4/6. The rest as above.
        - fp32: ``Q = 1 if a == 0 else min(fp32(target / fp64(a)), 2**127)``; ``carrier = round(x * Q)``;
          ``outer = fp32(1 / Q)``, for blocks too.
        - float, blocks only: under a tensor scale ``T = Q`` of the tensor's amax with ``fp64(target * scale_limit)``
          in place of target; otherwise T = 1. ``b = fp32(a * T)``; ``s = round_scale(fp32(fp64(b) / target))``
          (nearest even, saturating; 0 becomes 1), raised to the format's smallest number with ``T / s <= 2**127``;
          ``enc = min(fp32(T / s), 2**127)``; ``carrier = round(x * enc) * s``; ``outer = fp32(1 / T)``. A NaN T makes s
          NaN; so does a non-finite ``a``.
        - the choice 4/6 (``second_target`` t > 0): fp32 and float scales are computed with ``target`` and with t (T
          with ``target`` only) and the tile takes the second if its error is smaller: the sum of ``d * d`` in fp64 with
          ``d = fp64(q) * fp64(s) - fp64(x) * fp64(T)`` (fp32 scales: ``s = fp32(1 / Q)``, T = 1), over the places of a
          whole tile row by row of the matrix (beyond the matrix's end: 0), padded with zeros to a power of two and
          summed by halving (``v[:h] + v[h:]``).
        """
        ...

    def scaled_interleaved(
        self, x: Tensor, parameters: CastParameters, axis: int, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``scaled`` of every ``x[:, :, t]`` of ``[R, C, T]``, under one tensor scale if there is one.

        Block scales that the carrier holds, from amaxes; no transform, no random bits. The carrier is ``[R, C, T]``.
        """
        ...

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``scaled(x, row, 1, draws[0]) + scaled(x, column, 0, draws[1])``; the carriers into ``out``."""
        ...

    def scaled_quantized(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """``scaled(x, row, 1, draws[0]) + quantize(x, column, 0, draws[1])``; the carrier into ``out``."""
        ...

    def delayed(
        self, x: Tensor, parameters: CastParameters, draw: Draw, amax: Tensor, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``(carrier, outer, new amax)`` of a matrix and a per-tensor cast under a given amax (0-d fp32, finite).

        As ``scaled`` with ``a = amax``, unless that is 0: then ``a`` is x's own amax, as in ``scaled`` (NaN where that
        is not finite). ``new amax`` is x's, 0-d: NaN if there is a NaN. Under a given amax a non-finite element is
        rounded as any other (an infinity saturates or propagates), and spoils no scale.
        """
        ...

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude, 0-d fp32; NaN if there is a NaN; 0 if x is empty; any number of dimensions."""
        ...

    def hadamard(
        self, x: Tensor, size: int, signs: SignKey | None, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Orthonormal Walsh-Hadamard transform of groups of ``size`` (16, 32, 64 or 128) along ``axis``.

        Zero-padded along ``axis`` to a multiple of ``size``. Forward: signs (j is the index within the
        group; negative iff bit 0 of the Philox word of element j under the key is 1),
        then for h = 1, 2, 4, ...: ``(a, b) -> (a + b, a - b)`` for elements j and j + h, then one product
        with ``fp32(1 / sqrt(size))``. Inverse: butterflies, product, then signs.
        """
        ...

    def quantize(self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """``(codes, scales, outer)``: the numbers of ``scaled`` as codes, in the layout of x.

        ``codes`` is uint8 ``[R, ceil(C * bits / 8)]`` of the (padded, transformed) matrix: each row a little-endian
        bit stream that starts at a byte (4 bits: low nibble first). Codes are sign | exponent | mantissa, a byte in
        two's complement, or those of the table. ``scales`` is uint8, one code per tile: E + 127 (255: NaN), or the
        code of the scale's format (its NaN code: NaN); shape ``[0]`` for other casts. ``outer`` as in ``scaled``.
        """
        ...

    def dequantize(
        self,
        codes: Tensor,
        scales: Tensor,
        outer: Tensor | None,
        parameters: CastParameters,
        shape: Sequence[int],
        axis: int,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """``fp32(fp32(element * scale) * outer)``, or without ``outer`` the carrier ``fp32(element * scale)``.

        ``shape`` is that of the matrix that was rounded: x's, padded along ``axis`` if there is a transform,
        which is not undone here.
        """
        ...

    def narrow_product(self, a_MK: Tensor, b_KN: Tensor, sums: Sums) -> Tensor:
        """``a @ b`` with a narrow accumulator, ``[M, N]``.

        For each output, in the order k = 0, 1, ...: ``acc = narrow(fp64(acc + fp64(a * b)))`` from 0, where narrow
        rounds the significand to ``mantissa_bits`` (no exponent limit); after every ``promote_every`` products
        ``total = fp32(total + fp32(acc))``, from 0, and acc = 0. At the end ``fp32(total + fp32(acc))``.
        """
        ...
