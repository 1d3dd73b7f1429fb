"""What a layer keeps of its input for the weight's gradient: the codes of the cast that wgrad reads, not more.

An input that its producer keeps anyway is kept as it is, which adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .. import kernels
from ._cast_context import CastContext, padded_shape
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operand_watch import see
from ._operands import cast_operand, operand_of
from ._producer import costs_nothing_to_keep

Kept = tuple[Tensor | None, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class SavedInput:
    """How to read what was kept.

    Attributes:
        shape: of the matrix whose codes were kept; ``None``: the values themselves were, or nothing.
        is_cast: whether they are the cast's values already.
        axis: that the reduction runs along.
    """

    shape: tuple[int, ...] | None
    is_cast: bool
    axis: Literal[0, 1] = 0


_AS_IT_IS = SavedInput(None, False)


def cast_and_keep(
    x_MK: Tensor, fprop: OperandCast | None, wgrad: OperandCast | None, context: CastContext
) -> tuple[Operand, SavedInput, Kept]:
    """The input as fprop's operand, and what wgrad will read of it.

    Args:
        x_MK: in the compute dtype.
        fprop: cast along axis 1.
        wgrad: cast along axis 0; ``None``: the input as it is.
        context: of the input.

    Returns:
        The operand; how to read what was kept; ``(codes or values, scales, outer)``.
    """
    if wgrad is not None and costs_nothing_to_keep(x_MK, wgrad):
        return cast_operand(x_MK, fprop, 1, context), _AS_IT_IS, (x_MK, None, None)
    if wgrad is not None and fprop == wgrad and wgrad.ignores_axis:
        x = cast_operand(x_MK, fprop, 1, context)
        return x, *_kept_values(x, wgrad, tuple(x_MK.shape))
    if wgrad is None or fprop is None or not (fprop.is_fusable and wgrad.is_fusable):
        kept = keep(x_MK, wgrad, context.next())
        return cast_operand(x_MK, fprop, 1, context), *kept
    see(x_MK, fprop, 1, context)
    see(x_MK, wgrad, 0, context.next())
    carrier, outer, *codes = kernels.scaled_quantized(
        x_MK,
        fprop.text,
        wgrad.text,
        random=context.random,
        stream=context.element_stream,
        sign_streams=context.sign_streams,
        out=context.memory(x_MK, fprop, 1),
    )
    kept = (codes[0], codes[1], codes[2])
    return operand_of(carrier, outer, fprop, 1), SavedInput(tuple(padded_shape(x_MK, wgrad, 0)), True), kept


def keep(
    x_MK: Tensor, wgrad: OperandCast | None, context: CastContext, axis: Literal[0, 1] = 0
) -> tuple[SavedInput, Kept]:
    """What wgrad will read of the input.

    Args:
        x_MK: in the compute dtype.
        wgrad: cast along ``axis``; ``None``: the input as it is.
        context: of the input's second orientation.
        axis: that the reduction runs along.
    """
    if wgrad is None:
        return _AS_IT_IS, (x_MK, None, None)
    if not wgrad.is_fusable:
        return _kept_values(cast_operand(x_MK, wgrad, axis, context), wgrad, tuple(x_MK.shape))
    see(x_MK, wgrad, axis, context)
    codes = kernels.quantize(
        x_MK,
        wgrad.text,
        axis=axis,
        random=context.random,
        stream=context.element_stream,
        sign_stream=context.sign_streams[0],
    )
    return SavedInput(tuple(padded_shape(x_MK, wgrad, axis)), True, axis=axis), codes


def _kept_values(x: Operand, cast: OperandCast, shape: tuple[int, ...]) -> tuple[SavedInput, Kept]:
    """Grid values as codes; unscaled ones in 16 bits where those hold them: not every format has a code for NaN."""
    if cast.scaled:
        codes, scales, _ = kernels.quantize(x.carrier, cast.element, axis=0)
        return SavedInput(shape, True), (codes, scales, outer_with_nan(x, cast))
    carrier = x.carrier if cast.dtype is None else x.carrier.to(cast.dtype)
    # What lives in the workspace is overwritten by the next layer.
    return SavedInput(None, True), (carrier.clone() if carrier is x.carrier else carrier, None, None)


def outer_with_nan(x: Operand, cast: OperandCast) -> Tensor | None:
    """The outer scale; NaN where a NaN stood that no code tells (a delayed scale does not know of it)."""
    if cast.delayed is None or cast.has_nan or x.outer is None:
        return x.outer
    return torch.where(x.carrier.isnan().any(), torch.nan, x.outer)


def kept_operand(kept: Kept, saved: SavedInput, cast: OperandCast | None, context: CastContext) -> Operand:
    """The operand of wgrad from what was kept; ``context`` is that of this orientation."""
    values, scales, outer = kept
    if values is None:
        raise RuntimeError(f"{context.site.name}: nothing was kept of the input for the weight's gradient")
    if cast is None or not saved.is_cast:
        return cast_operand(values, cast, saved.axis, context)
    if saved.shape is None or scales is None:
        return Operand(values.float(), None, cast.text)
    out = None if context.slots[0] is None else context.workspace.take(context.slots[0], saved.shape, values.device)
    carrier = kernels.dequantize(values, scales, None, cast.text, saved.shape, axis=saved.axis, out=out)
    unit = torch.ones((), device=values.device)
    return operand_of(carrier, unit if outer is None else outer, cast, saved.axis)
