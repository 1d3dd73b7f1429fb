"""Products whose sums need more than one fp32 GEMM: scales inside the reduction, long integer sums, narrow sums."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import kernels
from ..specs import Accumulator
from ._exact_product import exactly
from ._operand import Operand

# Products of two 7-bit integers have 14 bits: a sum of 1024 of them fits the 24 bits of fp32, and is exact.
_EXACT_INTEGERS = 1024


def needs_more_than_one_gemm(a: Operand, b: Operand, accumulator: Accumulator | None, reduction: int) -> bool:
    """Whether a product of two operands is one of those that ``special_product`` makes."""
    has_tiles = a.tiles is not None or b.tiles is not None
    return accumulator is not None or has_tiles or (a.is_integer and b.is_integer and reduction > _EXACT_INTEGERS)


def special_product(a: Operand, b: Operand, accumulator: Accumulator | None) -> Tensor | None:
    """``a_MK @ b_KN`` in fp32 without the outer scales, where one GEMM is not enough; ``None`` where it is.

    - scales that vary along the reduction and are no powers of two: the reduction in pieces, whose partial sums are scaled
      and added in fp32;
    - integers over a reduction of more than 1024: exact sums of pieces, added exactly;
    - a narrow accumulator: product by product.
    """
    if not needs_more_than_one_gemm(a, b, accumulator, a.carrier.shape[1]):
        return None
    if accumulator is not None:
        return _narrow(a, b, accumulator)
    if a.tiles is not None or b.tiles is not None:
        return _in_tiles(a, b, _tile_length(a, b))
    return _in_integers(a.carrier.float(), b.carrier.float())


def _tile_length(a: Operand, b: Operand) -> int:
    """How much of the reduction has constant scales in both operands."""
    lengths = [length for o, length in ((a, a.tile[1]), (b, b.tile[0])) if o.tiles is not None]
    return math.gcd(*lengths)


def _in_tiles(a: Operand, b: Operand, length: int) -> Tensor:
    a_MK, b_KN = a.carrier.float(), b.carrier.float()
    y_MN = a_MK.new_zeros(a_MK.shape[0], b_KN.shape[1])
    for start in range(0, a_MK.shape[1], length):
        piece = exactly(torch.mm, a_MK[:, start : start + length], b_KN[start : start + length])
        if a.tiles is not None:
            piece = piece.mul_(_spread(a.tiles[:, start // a.tile[1]], a.tile[0], a_MK.shape[0])[:, None])
        if b.tiles is not None:
            piece = piece.mul_(_spread(b.tiles[start // b.tile[0]], b.tile[1], b_KN.shape[1])[None])
        y_MN = y_MN.add_(piece)
    return y_MN


def _spread(scales: Tensor, size: int, length: int) -> Tensor:
    """One scale for each row or column of tiles as one for each row or column."""
    return scales if size == 1 else scales.repeat_interleave(size)[:length]


def _in_integers(a_MK: Tensor, b_KN: Tensor) -> Tensor:
    pieces = range(0, a_MK.shape[1], _EXACT_INTEGERS)
    sums = [exactly(torch.mm, a_MK[:, k : k + _EXACT_INTEGERS], b_KN[k : k + _EXACT_INTEGERS]).double() for k in pieces]
    return torch.stack(sums).sum(0).float()  # integers below 2**53: any order gives the same


def _narrow(a: Operand, b: Operand, accumulator: Accumulator) -> Tensor:
    return kernels.narrow_product(
        _valued(a),
        _valued(b),
        mantissa_bits=accumulator.mantissa_bits,
        rounding=accumulator.rounding,
        promote_every=accumulator.promote_every,
    )


def _valued(operand: Operand) -> Tensor:
    """The carrier with the scales that vary along the reduction."""
    carrier, tiles = operand.carrier.float(), operand.tiles
    if tiles is None:
        return carrier
    rows, columns = (
        index.div(size, rounding_mode="floor")
        for index, size in zip(map(_indices, carrier.shape, (carrier,) * 2), operand.tile, strict=True)
    )
    return carrier * tiles[rows][:, columns]


def _indices(length: int, like: Tensor) -> Tensor:
    return torch.arange(length, device=like.device)
