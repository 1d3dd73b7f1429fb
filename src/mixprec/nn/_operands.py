"""From tensors to GEMM operands: the cast of each role, doing a matrix's two orientations in one read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import kernels
from ._engines import FORMAT_OF_DTYPE, Operand
from ._site import OperandCast
from ._workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class CastContext:
    """What the operands of one pass share.

    Attributes:
        random: ``[seed, offset]`` of the pass.
        stream: the operand's first stream of random bits.
        wide: whether operands without a cast are widened to fp32 (once, for all products that they enter).
        workspace: memory for operands that are not kept.
        slots: where in it the operand's two orientations go; ``None`` for one that is kept.
    """

    random: Tensor
    stream: int
    wide: bool
    workspace: Workspace
    slots: tuple[str | None, str | None]

    def next(self) -> CastContext:
        """The context of the operand's second orientation."""
        return replace(self, stream=self.stream + 1, slots=(self.slots[1], None))

    def memory(self, x: Tensor) -> Tensor | None:
        """Where the cast of ``x`` goes."""
        slot = self.slots[0]
        return None if slot is None else self.workspace.take(slot, x.shape, x.device)


def cast_operand(x_RC: Tensor, cast: OperandCast | None, axis: int, context: CastContext) -> Operand:
    """``x`` as an operand whose reduction runs along ``axis``; ``None`` takes it as it is."""
    if cast is None:
        return Operand(_widened(x_RC, context) if context.wide else x_RC, None, FORMAT_OF_DTYPE[x_RC.dtype])
    random, stream = context.random, context.stream
    if cast.transform:
        x_RC = _transformed(x_RC, cast, axis, context)
    out = context.memory(x_RC)
    if not cast.scaled:
        return Operand(kernels.round(x_RC, cast.text, random=random, stream=stream, out=out), None, cast.text)
    carrier, outer = kernels.scaled(x_RC, cast.after_transform, axis=axis, random=random, stream=stream, out=out)
    return Operand(carrier, outer if cast.has_outer else None, cast.text)


def _transformed(x_RC: Tensor, cast: OperandCast, axis: int, context: CastContext) -> Tensor:
    shape = list(x_RC.shape)
    shape[axis] += -shape[axis] % cast.transform
    out = context.workspace.take("transform", shape, x_RC.device)
    return kernels.hadamard(x_RC, cast.transform, signs=cast.signs, axis=axis, out=out)


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
    carrier, outer, carrier_t, outer_t = kernels.scaled_both(
        x_RC,
        first.text,
        second.text,
        random=context.random,
        stream=context.stream,
        out=(context.memory(x_RC), context.next().memory(x_RC)),
    )
    return (
        Operand(carrier, outer if first.has_outer else None, first.text),
        Operand(carrier_t, outer_t if second.has_outer else None, second.text),
    )


def transposed(operand: Operand) -> Operand:
    """The same operand seen from the other side of the product."""
    outer = operand.outer
    return Operand(operand.carrier.t(), outer if outer is None or outer.dim() == 0 else outer.t(), operand.format)


def rounded_to(x: Tensor, dtype: torch.dtype, wide: bool, out: Tensor | None = None) -> Tensor:
    """``x`` rounded to ``dtype``'s values; held in fp32 (in ``out`` if given) when ``wide`` and ``x`` is fp32."""
    if x.dtype == dtype:
        return x
    if wide and x.dtype == torch.float32:
        return kernels.round(x, FORMAT_OF_DTYPE[dtype], out=out)
    return x.to(dtype)
