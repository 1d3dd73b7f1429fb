"""Operands of a convolution, cast along the reduction of each of its three products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from . import _convolution_layout as layout
from ._batched_operands import cast_batch, cast_weight_batch
from ._convolution_layout import Geometry
from ._linear import grad_context, input_context, weight_context
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operands import CastContext, cast_both, cast_operand
from ._saved_input import Kept, SavedInput, cast_and_keep, keep, keep_along_rows, kept_operand
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


def unplaced(context: CastContext) -> CastContext:
    """Without places in the workspace: the operand is laid out anew, or kept."""
    return replace(context, slots=(None, None))


def along_channels(x: Tensor, cast: OperandCast | None, geometry: Geometry, context: CastContext) -> ChannelOperand:
    """[N, channels, ...] cast along the channels of each group: the input of fprop, the gradient of dgrad."""
    context = unplaced(context)
    if cast is None or cast.ignores_axis:
        made = cast_operand(x.reshape(x.shape[0], -1), cast, 1, context)
        return _made(made.carrier.reshape(x.shape), made)
    groups = geometry.groups
    if layout.fits(cast, x.shape[1] // groups):
        made = cast_operand(layout.channel_rows(x), cast, 0, context)
        return _made(made.carrier.reshape(x.shape), made)
    made = cast_batch(layout.group_rows(x, groups), cast, context)
    if made.outer is not None and made.outer.dim() > 0:  # powers of two by row: exact inside the carrier
        made = replace(made, carrier=made.carrier * made.outer, outer=None)
    return _made(layout.from_group_rows(made.carrier, x), made)


def weight_for_fprop(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an output sums."""
    cast, context = site.casts.fprop_weight, unplaced(weight_context(site, drawn, 1))
    if cast is None or cast.ignores_axis or cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_fprop(weight, geometry), cast, context)
    return _made(layout.weight_from_fprop(made.carrier, geometry), made)


def weight_for_dgrad(weight: Tensor, geometry: Geometry, site: Site, drawn: Tensor) -> ChannelOperand:
    """The weight cast along what an input's gradient sums."""
    cast, context = site.casts.dgrad_weight, unplaced(weight_context(site, drawn, 0))
    if cast is None or cast.ignores_axis:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_fprop(weight))
        return _made(made.carrier.reshape(weight.shape), made)
    if cast.is_row:
        made = _weight_rows(weight, cast, context, lambda: layout.rows_for_dgrad(weight, geometry))
        return _made(layout.rows_from_dgrad(made.carrier, geometry), made)
    made = cast_weight_batch(weight, lambda: layout.weight_for_dgrad(weight, geometry), cast, context)
    return _made(layout.weight_from_dgrad(made.carrier, geometry), made)


def _weight_rows(weight: Tensor, cast: OperandCast | None, context: CastContext, rows: Any) -> Operand:
    """A weight as one matrix, whose scales are those of its rows or of the whole."""
    if cast is None:
        matrix = rows().to(context.site.state.compute_dtype)
        return cast_operand(matrix, None, 1, context)
    if not cast.scaled or cast.delayed is not None:
        return cast_operand(rows(), cast, 1, context)
    made = cast_weight_batch(weight, lambda: rows()[None], cast, context)
    outer = made.outer
    return replace(made, carrier=made.carrier[0], outer=outer if outer is None or outer.dim() == 0 else outer[0])


# --- the weight's gradient --------------------------------------------------------------------------


def input_operand(
    x_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor, *, keeps: bool
) -> tuple[ChannelOperand, SavedInput | None, Kept]:
    """The input as fprop's operand, and what wgrad will read of it if it ``keeps`` that.

    Under one scale the tensor is cast as it lies. Blocks along positions lie in it too where they end with the image.
    """
    context = unplaced(input_context(site, drawn))
    fprop, wgrad = site.casts.fprop_input, site.casts.wgrad_input
    if keeps and wgrad is not None and fprop == wgrad and wgrad.ignores_axis:
        made, saved, kept = cast_and_keep(x_c.flatten(1), fprop, wgrad, context)
        return _made(made.carrier.reshape(x_c.shape), made), saved, kept
    a = along_channels(x_c, fprop, geometry, context)
    if not keeps:
        return a, None, (None, None, None)
    if wgrad is None or unfolds(site):
        return a, *keep(x_c, None, context.next())
    if layout.fits(wgrad, x_c.shape[2:].numel()):
        return a, *keep_along_rows(layout.channel_rows(x_c), wgrad, context.next())
    matrix = x_c.flatten(1) if wgrad.ignores_axis else _positions(x_c, wgrad, geometry)
    return a, *keep(matrix, wgrad, context.next())


def unfolds(site: Site) -> bool:
    """Whether wgrad has a transform: along positions it cancels only once each tap has its own copy of the input."""
    return any(c is not None and c.transform > 0 for c in (site.casts.wgrad_input, site.casts.wgrad_grad_output))


def kept_input(
    kept: Kept, saved: SavedInput, geometry: Geometry, like: Tensor, site: Site, drawn: Tensor
) -> ChannelOperand:
    """The input of wgrad from what was kept of it; ``like`` has its shape."""
    cast = site.casts.wgrad_input
    made = kept_operand(kept, saved, cast, unplaced(input_context(site, drawn).next()))
    return _in_positions(made, cast, geometry, like, as_it_lies=saved.axis == 1)


def gradients(
    g_c: Tensor, geometry: Geometry, site: Site, drawn: Tensor, needs: tuple[bool, bool]
) -> tuple[ChannelOperand | None, ChannelOperand | None]:
    """The output's gradient as dgrad's operand, along channels, and as wgrad's, along batch and positions."""
    context, (needs_x, needs_w) = unplaced(grad_context(site, drawn)), needs
    dgrad, wgrad = site.casts.dgrad_grad_output, site.casts.wgrad_grad_output
    if needs_x and needs_w and dgrad == wgrad and (dgrad is None or dgrad.ignores_axis):
        both = along_channels(g_c, dgrad, geometry, context)
        return both, both
    fit = layout.fits(dgrad, geometry.out_group) and layout.fits(wgrad, g_c.shape[2:].numel())
    if needs_x and needs_w and fit:
        # Rows of the matrix are channels: wgrad's blocks lie along them, dgrad's across.
        crosswise = replace(context, signs=(context.signs[1], context.signs[0]))
        along, across = cast_both(layout.channel_rows(g_c), wgrad, dgrad, crosswise)
        return _made(across.carrier.reshape(g_c.shape), across), _made(along.carrier.reshape(g_c.shape), along)
    return (
        along_channels(g_c, dgrad, geometry, context) if needs_x else None,
        _along_positions(g_c, wgrad, geometry, context.next()) if needs_w else None,
    )


def _along_positions(g_c: Tensor, cast: OperandCast | None, geometry: Geometry, context: CastContext) -> ChannelOperand:
    if cast is None or cast.ignores_axis:
        made = cast_operand(g_c.reshape(g_c.shape[0], -1), cast, 1, context)
        return _in_positions(made, cast, geometry, g_c)
    if layout.fits(cast, g_c.shape[2:].numel()):
        return _in_positions(
            cast_operand(layout.channel_rows(g_c), cast, 1, context), cast, geometry, g_c, as_it_lies=True
        )
    return _in_positions(cast_operand(_positions(g_c, cast, geometry), cast, 0, context), cast, geometry, g_c)


def _positions(x: Tensor, cast: OperandCast, geometry: Geometry) -> Tensor:
    return layout.groups_apart(layout.positions_by_channels(x), geometry.groups, cast.tile[0]).contiguous()


def _in_positions(
    made: Operand, cast: OperandCast | None, geometry: Geometry, like: Tensor, *, as_it_lies: bool = False
) -> ChannelOperand:
    """An operand of wgrad in the layout of ``like``."""
    if as_it_lies or cast is None or cast.ignores_axis:
        return _made(made.carrier.reshape(like.shape), made)
    matrix = layout.groups_together(made.carrier, geometry.groups, like.shape[1])
    return _made(layout.from_positions(matrix, like), made)
