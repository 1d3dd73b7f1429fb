"""Operands of batched products: casts of [B, R, C] whose blocks never reach from one matrix into the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from .. import kernels
from ._cast_context import CastContext
from ._clipping import passed_on, trusted
from ._operand import FORMAT_OF_DTYPE, Operand
from ._operand_cast import OperandCast
from ._operand_watch import see, see_made
from ._operands import cast_operand, operand_of
from ._saved_input import outer_with_nan
from ._weight_cache import Codes


@dataclass(frozen=True)
class Packed:
    """A batched operand as codes; blocks along the last axis of ``shape`` [B, R, C], or of its transpose's."""

    codes: Tensor
    scales: Tensor
    outer: Tensor | None
    shape: tuple[int, int, int]


def cast_batch(x_BRC: Tensor, cast: OperandCast | None, context: CastContext) -> Operand:
    """``x`` as an operand whose reduction is its last axis.

    The matrices are stacked to one [B * R, C] with the tensor's scale in common; where a tile spans rows, R is filled
    with zeros to whole tiles first. Scales come back as [], [B, R, 1], or one for each tile of each matrix.
    """
    if cast is None:
        x_BRC = x_BRC.to(context.site.state.compute_dtype)
        return Operand(x_BRC.float() if context.wide else x_BRC, None, FORMAT_OF_DTYPE[x_BRC.dtype])
    matrix = stacked(x_BRC, cast)
    return _unstacked(cast_operand(matrix, cast, 1, context), x_BRC, cast)


def cast_weight_batch(
    weight: Tensor, matrices: Callable[[], Tensor], cast: OperandCast | None, context: CastContext
) -> Operand:
    """As ``cast_batch`` of a weight's ``matrices``; from their codes where they were kept since its last update."""
    kept = kept_weight_batch(weight, matrices, cast, context)
    return cast_batch(matrices(), cast, context) if kept is None else kept


def kept_weight_batch(
    weight: Tensor, matrices: Callable[[], Tensor], cast: OperandCast | None, context: CastContext
) -> Operand | None:
    """A weight's ``matrices`` from codes, where these were kept since its last update."""
    if cast is None or not cast.is_kept:
        return None
    state, name = context.site.state, f"{context.site.name} {context.element_stream} {cast.text}"

    def make() -> Codes:
        packed = pack_batch(matrices(), cast, context)
        return Codes(packed.codes, packed.scales, packed.outer, packed.shape)

    codes = state.weights.codes(weight, name, state.step, make)
    if codes is None or codes.shape is None:
        return None
    see_made(lambda: stacked(matrices(), cast), cast, 1, context)
    return unpack_batch(Packed(codes.codes, codes.scales, codes.outer, codes.shape), cast)


def pack_batch(x_BRC: Tensor, cast: OperandCast, context: CastContext) -> Packed:
    """The codes of ``cast_batch``, equal bit for bit."""
    batch, rows, columns = x_BRC.shape
    matrix = stacked(x_BRC, cast)
    if cast.delayed is not None:  # its amax is that of now, not of the backward pass
        made = cast_operand(matrix, cast, 1, context)
        codes, scales, _ = kernels.quantize(made.carrier, cast.element, axis=1)
        return Packed(codes, scales, outer_with_nan(made, cast), (batch, rows, columns))
    see(matrix, cast, 1, context)
    random, stream, sign_stream = context.random, context.element_stream, context.sign_streams[0]
    parts = kernels.quantize(matrix, cast.text, axis=1, random=random, stream=stream, sign_stream=sign_stream)
    return Packed(*parts, shape=(batch, rows, columns))


def unpack_batch(packed: Packed, cast: OperandCast) -> Operand:
    """The operand of ``cast_batch`` from its codes."""
    batch, rows, columns = packed.shape
    like = packed.codes.new_empty(0).expand(batch, rows, 0)
    shape = (batch * _whole(rows, cast.tile[0]), _whole(columns, cast.transform or 1))
    carrier = kernels.dequantize(packed.codes, packed.scales, None, cast.text, shape, axis=1)
    outer = carrier.new_ones(()) if packed.outer is None else packed.outer
    return _unstacked(operand_of(carrier, outer, cast, 1), like, cast)


def trusted_batch(x_BRC: Tensor, cast: OperandCast | None, context: CastContext) -> Tensor | None:
    """Where matrices were not clipped, as bits; ``None`` for a cast that clips nothing on purpose."""
    return None if cast is None or not cast.clips else trusted(stacked(x_BRC, cast), cast, context)


def passed_on_batch(grad_BRC: Tensor, bits: Tensor | None, cast: OperandCast | None, context: CastContext) -> Tensor:
    """A gradient without what belongs to clipped elements."""
    if bits is None or cast is None:
        return grad_BRC
    made = passed_on(stacked(grad_BRC, cast), bits, cast, context)
    return made.reshape(grad_BRC.shape[0], -1, grad_BRC.shape[2])[:, : grad_BRC.shape[1]]


def transposed_batch(operand: Operand) -> Operand:
    """The same operand seen from the other side of the product."""
    outer, tiles = operand.outer, operand.tiles
    return Operand(
        operand.carrier.transpose(1, 2),
        outer if outer is None or outer.dim() == 0 else outer.transpose(1, 2),
        operand.format,
        tiles=None if tiles is None else tiles.transpose(1, 2),
        tile=(operand.tile[1], operand.tile[0]),
        is_integer=operand.is_integer,
    )


def one_of(operand: Operand, index: int) -> Operand:
    """One matrix of a batched operand."""
    outer, tiles = operand.outer, operand.tiles
    return Operand(
        operand.carrier[index],
        outer if outer is None or outer.dim() == 0 else outer[index],
        operand.format,
        tiles=None if tiles is None else tiles[index],
        tile=operand.tile,
        is_integer=operand.is_integer,
    )


def _whole(length: int, size: int) -> int:
    return length + -length % size


def stacked(x_BRC: Tensor, cast: OperandCast) -> Tensor:
    """The matrices as one, [B * R, C]; R filled with zeros to whole tiles, where a tile spans rows."""
    missing = -x_BRC.shape[1] % cast.tile[0]
    x_BRC = F.pad(x_BRC, (0, 0, 0, missing)) if missing else x_BRC
    return x_BRC.reshape(-1, x_BRC.shape[2])


def _unstacked(operand: Operand, like_BRC: Tensor, cast: OperandCast) -> Operand:
    batch, rows = like_BRC.shape[:2]
    outer, tiles = operand.outer, operand.tiles
    carrier = operand.carrier.reshape(batch, -1, operand.carrier.shape[1])
    return Operand(
        carrier[:, :rows],
        outer if outer is None or outer.dim() == 0 else outer.reshape(batch, -1, 1)[:, :rows],
        operand.format,
        tiles=None if tiles is None else tiles.reshape(batch, -1, tiles.shape[1]),
        tile=operand.tile,
        is_integer=operand.is_integer,
    )
