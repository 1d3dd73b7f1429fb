"""From tensors to GEMM operands: the cast of each role, doing a matrix's two orientations in one read."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .. import kernels
from ..specs import Delayed
from ..tensors import amax_of, record
from ._cast_context import CastContext
from ._operand import FORMAT_OF_DTYPE, Operand
from ._operand_cast import OperandCast
from ._operand_watch import see


def cast_operand(x_RC: Tensor, cast: OperandCast | None, axis: int, context: CastContext) -> Operand:
    """``x`` as an operand whose reduction runs along ``axis``; ``None`` takes it as it is."""
    if cast is None:
        return Operand(_widened(x_RC, context) if context.wide else x_RC, None, FORMAT_OF_DTYPE[x_RC.dtype])
    if cast.delayed is None:
        see(x_RC, cast, axis, context)
    random, stream, out = context.random, context.element_stream, context.memory(x_RC, cast, axis)
    if cast.delayed is not None:
        return _delayed(x_RC, cast, cast.delayed, context, out)
    if not cast.scaled:
        return Operand(kernels.round(x_RC, cast.text, random=random, stream=stream, out=out), None, cast.text)
    carrier, outer = kernels.scaled(
        x_RC, cast.text, axis=axis, random=random, stream=stream, sign_stream=context.sign_streams[0], out=out
    )
    return operand_of(carrier, outer, cast, axis)


def operand_of(carrier: Tensor, outer: Tensor, cast: OperandCast, axis: int) -> Operand:
    """A carrier and its outer scale as an operand."""
    if cast.has_tile_scales:
        return Operand(
            carrier, None, cast.text, tiles=outer, tile=cast.tile if axis == 1 else (cast.tile[1], cast.tile[0])
        )
    return Operand(carrier, outer if cast.has_outer else None, cast.text, is_integer=cast.is_integer)


def _delayed(x_RC: Tensor, cast: OperandCast, delayed: Delayed, context: CastContext, out: Tensor | None) -> Operand:
    state = context.site.state
    name = history_name(context.site.name, context.role, cast)
    history = state.histories[name]
    repeated = state.repeated(name) if context.is_forward else None
    known = None if repeated is None else state.amax_of_repeated(repeated, name)
    before = amax_of(history, delayed) if known is None else known
    see(x_RC, cast, 1, context, before)
    carrier, outer, now = kernels.delayed(
        x_RC, cast.text, before, random=context.random, stream=context.element_stream, out=out
    )
    if known is None and (context.role == "grad_output" or state.current.records or repeated is not None):
        record(history, now)
        state.note_amax(name, before)
    return Operand(carrier, outer, cast.text, is_integer=cast.is_integer)


def history_name(site: str, role: str, cast: OperandCast) -> str:
    """The name of an operand's history, e.g. ``"blocks.3.fc2 (grad_output) e5m2[tensor] delayed"``."""
    return f"{site} ({role}) {cast.text}"


def _widened(x: Tensor, context: CastContext) -> Tensor:
    out = None if x.dtype == torch.float32 else context.memory(x)
    return x.float() if out is None else out.copy_(x)


def cast_both(
    x_RC: Tensor, along_columns: OperandCast | None, along_rows: OperandCast | None, context: CastContext
) -> tuple[Operand, Operand]:
    """``x`` as an operand reduced along axis 1 and as one reduced along axis 0.

    Reads ``x`` once where both are scaled; casts once where the two casts give the same values.
    """
    if along_columns == along_rows and (along_columns is None or along_columns.ignores_axis):
        both = cast_operand(x_RC, along_columns, 1, context)
        return both, both
    first, second = along_columns, along_rows
    if first is None or second is None or not (first.is_fusable and second.is_fusable):
        return cast_operand(x_RC, first, 1, context), cast_operand(x_RC, second, 0, context.next())
    see(x_RC, first, 1, context)
    see(x_RC, second, 0, context.next())
    carrier, outer, carrier_t, outer_t = kernels.scaled_both(
        x_RC,
        first.text,
        second.text,
        random=context.random,
        stream=context.element_stream,
        sign_streams=context.sign_streams,
        out=(context.memory(x_RC, first, 1), context.next().memory(x_RC, second, 0)),
    )
    return operand_of(carrier, outer, first, 1), operand_of(carrier_t, outer_t, second, 0)


def transposed(operand: Operand) -> Operand:
    """The same operand seen from the other side of the product."""
    outer, tiles = operand.outer, operand.tiles
    return replace(
        operand,
        carrier=operand.carrier.t(),
        outer=outer if outer is None or outer.dim() == 0 else outer.t(),
        tiles=None if tiles is None else tiles.t(),
        tile=operand.tile[::-1],
    )


def rounded_to(x: Tensor, dtype: torch.dtype, wide: bool, out: Tensor | None = None) -> Tensor:
    """``x`` rounded to ``dtype``'s values; held in fp32 (in ``out`` if given) when ``wide`` and ``x`` is fp32."""
    if x.dtype == dtype:
        return x
    if wide and x.dtype == torch.float32:
        return kernels.round(x, FORMAT_OF_DTYPE[dtype], out=out)
    return x.to(dtype)
