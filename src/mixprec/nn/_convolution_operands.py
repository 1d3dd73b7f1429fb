"""Operands of a convolution, cast along the reduction of each of its three products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from .. import kernels
from . import _convolution_layout as layout
from ._batched_operands import cast_batch, cast_weight_batch, kept_weight_batch, stacked
from ._cast_context import CastContext, grad_context, input_context, weight_context
from ._convolution_blocks import ending_with, interleaved, lying_along_channels, lying_along_positions
from ._convolution_layout import Geometry
from ._linear import kept_weight
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operand_watch import see_made
from ._operands import cast_both, cast_operand, operand_of
from ._saved_input import Kept, SavedInput, cast_and_keep, keep, kept_operand
from ._site import Site


@dataclass(frozen=True)
class ChannelOperand:
    """An operand in the layout of a convolution; ``outer`` is a number or one scale for each of its outer channels."""

    values: Tensor
    outer: Tensor | None
    format: str
    is_integer: bool


def _made(values: Tensor, operand: Operand) -> ChannelOperand:
    return ChannelOperand(values, operand.outer, operand.format, operand.is_integer)


def along_channels(x: Tensor, cast: OperandCast | None, geometry: Geometry, context: CastContext) -> ChannelOperand:
    """[N, channels, ...] cast along the channels of each group: the input of fprop, the gradient of dgrad."""
    if cast is None or cast.ignores_axis:
        made = cast_operand(x.reshape(x.shape[0], -1), cast, 1, context)
        return _made(made.carrier.reshape(x.shape), made)
    group = geometry.out_group if context.role == "grad_output" else geometry.in_group
    lying = lying_along_channels(cast, x.shape, group)
    if lying is not None:
        made = lying.told(cast_operand(lying.matrix(x), lying.cast, lying.axis, context))
        return _made(made.carrier.reshape(x.shape), made)
    made = cast_batch(layout.group_rows(x, geometry.groups), cast, context.unplaced)
    if made.outer is not None and made.outer.dim() > 0:  # powers of two by row: exact inside the carrier
        made = replace(made, carrier=made.carrier * made.outer, outer=None)
    # A product would give its result in the layout of this operand.
    return _made(layout.from_group_rows(made.carrier, x.shape).contiguous(), made)


def weight_for_fprop(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an output sums."""
    cast, context = site.casts.fprop_weight, weight_context(site, drawn, 1)
    lying = None if cast is None else _weight_as_it_lies(weight, cast, geometry, context, 1)
    if lying is not None:
        return lying
    if cast is None or cast.ignores_axis or cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_fprop(weight, geometry), cast, context)
    return _made(layout.weight_from_fprop(made.carrier, geometry), made)


def weight_for_dgrad(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an input's gradient sums."""
    cast, context = site.casts.dgrad_weight, weight_context(site, drawn, 0)
    lying = None if cast is None else _weight_as_it_lies(weight, cast, geometry, context, 0)
    if lying is not None:
        return lying
    if cast is None or cast.ignores_axis:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    if cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_dgrad(weight, geometry))
        return _made(layout.rows_from_dgrad(made.carrier, geometry), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_dgrad(weight, geometry), cast, context)
    return _made(layout.weight_from_dgrad(made.carrier, geometry), made)


def _weight_as_it_lies(
    weight: Tensor, cast: OperandCast, geometry: Geometry, context: CastContext, axis: Literal[0, 1]
) -> ChannelOperand | None:
    """A weight in blocks without another layout: its taps lie side by side; ``None`` where blocks do not fit."""
    chosen = interleaved(cast, geometry, axis)
    if chosen is None:
        return None
    kept = _kept_codes(weight, chosen, geometry, context, axis)
    if kept is not None:
        return replace(kept, format=cast.text)
    laid_out, plain = (
        (layout.weight_for_fprop, cast)
        if axis == 1
        else (layout.weight_for_dgrad, ending_with(cast, geometry.out_group))
    )
    see_made(lambda: stacked(laid_out(weight, geometry), plain), plain, 1, context)
    taps = weight.reshape(weight.shape[0], geometry.in_group, geometry.taps)
    carrier, outer = kernels.scaled_interleaved(taps, chosen.text, axis=axis, out=context.memory(taps))
    made = replace(operand_of(carrier, outer, chosen, axis), format=cast.text)
    return _made(carrier.reshape(weight.shape), made)


def _kept_codes(
    weight: Tensor, cast: OperandCast, geometry: Geometry, context: CastContext, axis: Literal[0, 1]
) -> ChannelOperand | None:
    """A weight in blocks from its codes, where they were kept since its last update."""
    if torch.compiler.is_compiling():
        # Nothing is kept there; and a trace of a backward pass that is asked for a tensor's layout begins anew, without
        # leaving the autocast regions that it had entered (torch 2.13): the layers behind were taken for left alone.
        return None
    extent = geometry.in_group if axis == 1 else geometry.out_group
    if cast.tile[0] == 1 and extent % cast.tile[1] == 0 and weight.is_contiguous():
        # Blocks of input channels lie ``taps`` apart; those of output channels, all that one output sums.
        made = kept_weight(weight.view(-1, geometry.taps) if axis == 1 else weight.flatten(1), cast, 0, context)
        return None if made is None else _made(made.carrier.reshape(weight.shape), made)
    there, back = (
        (layout.weight_for_fprop, layout.weight_from_fprop)
        if axis == 1
        else (layout.weight_for_dgrad, layout.weight_from_dgrad)
    )
    made = kept_weight_batch(weight, lambda: there(weight, geometry), cast, context.unplaced)
    return None if made is None else _made(back(made.carrier, geometry), made)


def _weight_rows(weight: Tensor, cast: OperandCast | None, context: CastContext, rows: Callable[[], Tensor]) -> Operand:
    """A weight as one matrix, whose scales are those of its rows or of the whole."""
    if cast is None:
        matrix = rows().to(context.site.state.compute_dtype)
        return cast_operand(matrix, None, 1, context)
    if not cast.scaled or cast.delayed is not None:
        return cast_operand(rows(), cast, 1, context)
    made = cast_weight_batch(weight, lambda: rows()[None], cast, context)
    outer = made.outer
    return replace(made, carrier=made.carrier[0], outer=outer if outer is None or outer.dim() == 0 else outer[0])


# --- both products of an activation or a gradient ---------------------------------------------------


def input_and_kept(
    x_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor
) -> tuple[ChannelOperand, SavedInput, Kept]:
    """The input as fprop's operand, and what wgrad reads of it; cast once where both have the same scale."""
    fprop, wgrad, context = site.casts.fprop_input, site.casts.wgrad_input, input_context(site, drawn)
    if wgrad is not None and fprop == wgrad and wgrad.ignores_axis:
        made, saved, kept = cast_and_keep(x_c.flatten(1), fprop, wgrad, context)
        return _made(made.carrier.reshape(x_c.shape), made), saved, kept
    saved, kept = keep_input(x_c, geometry, site, drawn)
    return along_channels(x_c, fprop, geometry, context), saved, kept


def both_gradients(g_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> tuple[ChannelOperand, ChannelOperand]:
    """The output's gradient for dgrad and for wgrad: one operand where they are the same, one read where both lie."""
    dgrad, wgrad, context = site.casts.dgrad_grad_output, site.casts.wgrad_grad_output, grad_context(site, drawn)
    if dgrad == wgrad and (dgrad is None or dgrad.ignores_axis):
        both = along_channels(g_c, dgrad, geometry, context)
        return both, both
    lying_d = None if dgrad is None else lying_along_channels(dgrad, g_c.shape, geometry.out_group)
    lying_w = None if wgrad is None else lying_along_positions(wgrad, g_c.shape)
    if lying_d is not None and lying_w is not None and lying_w.axis == 1:
        # Rows of the matrix are channels: wgrad's blocks lie along them, dgrad's across.
        along, across = cast_both(lying_w.matrix(g_c), lying_w.cast, lying_d.cast, context)
        along, across = lying_w.told(along), lying_d.told(across)
        return _made(across.carrier.reshape(g_c.shape), across), _made(along.carrier.reshape(g_c.shape), along)
    return along_channels(g_c, dgrad, geometry, context), gradient_for_wgrad(g_c, geometry, site, drawn)


# --- the weight's gradient --------------------------------------------------------------------------


def keep_input(x_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> tuple[SavedInput, Kept]:
    """What wgrad reads of the input: codes of [N * positions, C], or of the tensor as it lies under one scale."""
    cast, context = site.casts.wgrad_input, input_context(site, drawn).next().unplaced
    if cast is None or cast.ignores_axis:
        return keep(x_c.flatten(1), cast, context)
    lying = lying_along_positions(cast, x_c.shape)
    if lying is not None:
        return keep(lying.matrix(x_c), lying.cast, context, lying.axis)
    return keep(_positions(x_c, cast, geometry), cast, context)


def kept_input(
    kept: Kept, saved: SavedInput | None, geometry: Geometry, shape: Sequence[int], site: Site, drawn: Tensor
) -> ChannelOperand:
    """The input of wgrad from what was kept of it: codes of an input of ``shape``, or (``saved`` is None) itself."""
    cast, context = site.casts.wgrad_input, input_context(site, drawn, kept="third").next()
    if saved is None:
        if kept[0] is None:
            raise RuntimeError(f"{site.name}: nothing was kept of the input for the weight's gradient")
        return _along_positions(kept[0], cast, geometry, context)
    lying = None if cast is None else lying_along_positions(cast, shape)
    if lying is not None:
        made = lying.told(kept_operand(kept, saved, lying.cast, context))
        return _made(made.carrier.reshape(list(shape)), made)
    return _in_positions(kept_operand(kept, saved, cast, context), cast, geometry, shape)


def gradient_for_wgrad(g_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The output's gradient cast along batch and positions."""
    return _along_positions(g_c, site.casts.wgrad_grad_output, geometry, grad_context(site, drawn).next())


def _along_positions(x: Tensor, cast: OperandCast | None, geometry: Geometry, context: CastContext) -> ChannelOperand:
    lying = None if cast is None else lying_along_positions(cast, x.shape)
    if lying is not None:
        made = lying.told(cast_operand(lying.matrix(x), lying.cast, lying.axis, context))
        return _made(made.carrier.reshape(x.shape), made)
    if cast is None or cast.ignores_axis:
        made = cast_operand(x.reshape(x.shape[0], -1), cast, 1, context)
    else:
        made = cast_operand(_positions(x, cast, geometry), cast, 0, context)
    return _in_positions(made, cast, geometry, x.shape)


def _positions(x: Tensor, cast: OperandCast, geometry: Geometry) -> Tensor:
    return layout.groups_apart(layout.positions_by_channels(x), geometry.groups, cast.tile[0]).contiguous()


def _in_positions(made: Operand, cast: OperandCast | None, geometry: Geometry, shape: Sequence[int]) -> ChannelOperand:
    """An operand of wgrad in the layout of a tensor of ``shape``."""
    if cast is None or cast.ignores_axis:
        return _made(made.carrier.reshape(list(shape)), made)
    matrix = layout.groups_together(made.carrier, geometry.groups, shape[1])
    return _made(layout.from_positions(matrix, shape), made)
