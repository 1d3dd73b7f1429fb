"""From tensors to GEMM operands: the cast of each role, doing a matrix's two orientations in one read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import kernels
from ._engines import FORMAT_OF_DTYPE, Operand
from ._site import OperandCast


@dataclass(frozen=True, kw_only=True)
class CastContext:
    """What the operands of one pass share.

    Attributes:
        random: ``[seed, offset]`` of the pass.
        stream: the operand's first stream of random bits.
        wide: whether operands without a cast are widened to fp32 (once, for all products that they enter).
    """

    random: Tensor
    stream: int
    wide: bool

    def next(self) -> CastContext:
        """The context of the operand's second orientation."""
        return replace(self, stream=self.stream + 1)


def cast_operand(x_RC: Tensor, cast: OperandCast | None, axis: int, context: CastContext) -> Operand:
    """``x`` as an operand whose reduction runs along ``axis``; ``None`` takes it as it is."""
    if cast is None:
        widened = x_RC.float() if context.wide else x_RC
        return Operand(widened, None, FORMAT_OF_DTYPE[x_RC.dtype])
    random, stream = context.random, context.stream
    if not cast.scaled:
        return Operand(kernels.round(x_RC, cast.text, random=random, stream=stream), None, cast.text)
    carrier, outer = kernels.scaled(x_RC, cast.text, axis=axis, random=random, stream=stream)
    return Operand(carrier, outer if cast.has_outer else None, cast.text)


def cast_both(
    x_RC: Tensor, along_columns: OperandCast | None, along_rows: OperandCast | None, context: CastContext
) -> tuple[Operand, Operand]:
    """``x`` as an operand reduced along axis 1 and as one reduced along axis 0.

    Reads ``x`` once where both are scaled; casts once where the two casts give the same values.
    """
    if along_columns == along_rows and (along_columns is None or along_columns.ignores_axis):
        both = cast_operand(x_RC, along_columns, 1, context)
        return both, both
    if along_columns is None or along_rows is None or not (along_columns.scaled and along_rows.scaled):
        return cast_operand(x_RC, along_columns, 1, context), cast_operand(x_RC, along_rows, 0, context.next())
    carrier, outer, carrier_t, outer_t = kernels.scaled_both(
        x_RC, along_columns.text, along_rows.text, random=context.random, stream=context.stream
    )
    return (
        Operand(carrier, outer if along_columns.has_outer else None, along_columns.text),
        Operand(carrier_t, outer_t if along_rows.has_outer else None, along_rows.text),
    )


def transposed(operand: Operand) -> Operand:
    """The same operand seen from the other side of the product."""
    outer = operand.outer
    return Operand(operand.carrier.t(), outer if outer is None or outer.dim() == 0 else outer.t(), operand.format)


def rounded_to(x: Tensor, dtype: torch.dtype, wide: bool) -> Tensor:
    """``x`` rounded to ``dtype``'s values; held in fp32 when ``wide`` and ``x`` is fp32."""
    if x.dtype == dtype:
        return x
    if wide and x.dtype == torch.float32:
        return kernels.round(x, FORMAT_OF_DTYPE[dtype])
    return x.to(dtype)
