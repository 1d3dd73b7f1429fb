"""Operands of a convolution, cast along the reduction of each of its three products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from . import _convolution_layout as layout
from ._batched_operands import cast_batch, cast_weight_batch
from ._cast_context import CastContext, grad_context, input_context, weight_context
from ._convolution_blocks import ending_with, fits
from ._convolution_layout import Geometry
from ._linear import weight_operand
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operands import cast_both, cast_operand
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
    groups = geometry.groups
    lying = ending_with(cast, x.shape[1] // groups)
    if fits(lying, x.shape[1] // groups):
        made = cast_operand(layout.channel_rows(x), lying, 0, context)
        return _made(made.carrier.reshape(x.shape), replace(made, format=cast.text))
    made = cast_batch(layout.group_rows(x, groups), cast, context.unplaced)
    if made.outer is not None and made.outer.dim() > 0:  # powers of two by row: exact inside the carrier
        made = replace(made, carrier=made.carrier * made.outer, outer=None)
    return _made(layout.from_group_rows(made.carrier, x), made)


def weight_for_fprop(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an output sums."""
    cast, context = site.casts.fprop_weight, weight_context(site, drawn, 1).unplaced
    if cast is not None and fits(cast, geometry.in_group) and weight.is_contiguous():
        matrix = weight.view(-1, geometry.taps)  # blocks of input channels, which lie ``taps`` apart
        made = weight_operand(matrix, cast, 0, site, drawn)
        return _made(made.carrier.reshape(weight.shape), made)
    if cast is None or cast.ignores_axis or cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_fprop(weight, geometry), cast, context)
    return _made(layout.weight_from_fprop(made.carrier, geometry), made)


def weight_for_dgrad(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an input's gradient sums."""
    cast, context = site.casts.dgrad_weight, weight_context(site, drawn, 0).unplaced
    if cast is not None and fits(cast, geometry.out_group) and weight.is_contiguous():
        made = weight_operand(weight.flatten(1), cast, 0, site, drawn)
        return _made(made.carrier.reshape(weight.shape), made)
    if cast is None or cast.ignores_axis:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    if cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_dgrad(weight, geometry))
        return _made(layout.rows_from_dgrad(made.carrier, geometry), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_dgrad(weight, geometry), cast, context)
    return _made(layout.weight_from_dgrad(made.carrier, geometry), made)


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
    if dgrad is not None and wgrad is not None and fits(wgrad, g_c.shape[2:].numel()):
        lying = ending_with(dgrad, geometry.out_group)
        if fits(lying, geometry.out_group):
            # Rows of the matrix are channels: wgrad's blocks lie along them, dgrad's across.
            along, across = cast_both(layout.channel_rows(g_c), wgrad, lying, context)
            across = replace(across, format=dgrad.text)
            return _made(across.carrier.reshape(g_c.shape), across), _made(along.carrier.reshape(g_c.shape), along)
    return along_channels(g_c, dgrad, geometry, context), gradient_for_wgrad(g_c, geometry, site, drawn)


# --- the weight's gradient --------------------------------------------------------------------------


def keep_input(x_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> tuple[SavedInput, Kept]:
    """What wgrad reads of the input: codes of [N * positions, C], or of the tensor as it lies under one scale."""
    cast, context = site.casts.wgrad_input, input_context(site, drawn).next().unplaced
    if cast is None or cast.ignores_axis:
        return keep(x_c.flatten(1), cast, context)
    if fits(cast, x_c.shape[2:].numel()):
        return keep(layout.channel_rows(x_c), cast, context, 1)
    return keep(_positions(x_c, cast, geometry), cast, context)


def kept_input(
    kept: Kept, saved: SavedInput, geometry: Geometry, like: Tensor, site: Site, drawn: Tensor
) -> ChannelOperand:
    """The input of wgrad from what was kept of it; ``like`` has its shape."""
    cast = site.casts.wgrad_input
    made = kept_operand(kept, saved, cast, input_context(site, drawn, kept="third").next())
    if saved.axis == 1:
        return _made(made.carrier.reshape(like.shape), made)
    return _in_positions(made, cast, geometry, like)


def gradient_for_wgrad(g_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The output's gradient cast along batch and positions."""
    cast, context = site.casts.wgrad_grad_output, grad_context(site, drawn).next()
    if cast is not None and fits(cast, g_c.shape[2:].numel()):
        made = cast_operand(layout.channel_rows(g_c), cast, 1, context)
        return _made(made.carrier.reshape(g_c.shape), made)
    if cast is None or cast.ignores_axis:
        made = cast_operand(g_c.reshape(g_c.shape[0], -1), cast, 1, context)
    else:
        made = cast_operand(_positions(g_c, cast, geometry), cast, 0, context)
    return _in_positions(made, cast, geometry, g_c)


def _positions(x: Tensor, cast: OperandCast, geometry: Geometry) -> Tensor:
    return layout.groups_apart(layout.positions_by_channels(x), geometry.groups, cast.tile[0]).contiguous()


def _in_positions(made: Operand, cast: OperandCast | None, geometry: Geometry, like: Tensor) -> ChannelOperand:
    """An operand of wgrad in the layout of ``like``."""
    if cast is None or cast.ignores_axis:
        return _made(made.carrier.reshape(like.shape), made)
    matrix = layout.groups_together(made.carrier, geometry.groups, like.shape[1])
    return _made(layout.from_positions(matrix, like), made)
