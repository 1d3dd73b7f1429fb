"""Convolutions whose six operands have casts: one autograd function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import _convolution_layout as layout
from ._autograd import plain_torch
from ._batched_operands import cast_batch
from ._convolution_arguments import ConvolutionArguments
from ._convolution_layout import Geometry
from ._engines import multiply
from ._exact_product import exactly
from ._linear import grad_context, input_context, product_of, weight_context
from ._once import OnceFunction, once
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operands import CastContext, cast_both, cast_operand, transposed
from ._saved_input import Kept, SavedInput, cast_and_keep, keep_along_rows, kept_operand
from ._site import Site


@dataclass(frozen=True)
class _ChannelOperand:
    """An operand in the layout of a convolution; ``outer`` is a number or one scale for each of its outer channels."""

    values: Tensor
    outer: Tensor | None
    format: str
    is_integer: bool


class CastConvolution(OnceFunction):
    """``aten.convolution`` of [N, C, ...] under a site's casts."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, arguments: ConvolutionArguments, site: Site
    ) -> Tensor:
        state, casts = site.state, site.casts
        drawn, dtype = state.current.drawn, state.compute_dtype
        geometry = Geometry.of(weight, arguments.groups)
        with plain_torch(state.device_type):
            x_c = x.to(dtype)
            a, ctx.saved_input, kept = _input(x_c, site, geometry, drawn, keeps=ctx.needs_input_grad[1])
            b = _weight_for_fprop(weight.to(dtype), site, geometry, drawn)
            _announce(site, "fprop", a, b)
            y = _wide(torch.ops.aten.convolution, a, b, geometry.reduction, None, *arguments.positional())
            y = layout.scaled_by(y, a.outer, layout.by_channel(b.outer, y))
            if bias is not None:
                y = y.add_(layout.by_channel(bias.to(dtype).float(), y))
        ctx.site, ctx.arguments, ctx.geometry = site, arguments, geometry
        ctx.dtypes, ctx.shape = (x.dtype, None if bias is None else bias.dtype), x.shape
        ctx.save_for_backward(*kept, weight, drawn)
        return y.to(dtype)

    @staticmethod
    @once
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad,) = grad_outputs
        *kept, weight, drawn = ctx.saved_tensors
        site: Site = ctx.site
        needs_x, needs_w, needs_b = ctx.needs_input_grad[:3]
        dx = dw = db = None
        with plain_torch(site.state.device_type):
            g_c = grad.to(site.state.compute_dtype)
            g, g_wgrad = _gradients(g_c, site, ctx.geometry, drawn, needs_x, needs_w and not _unfolds(site))
            w = None if g is None else _weight_for_dgrad(weight.to(g_c.dtype), site, ctx.geometry, drawn)
            kept_input = (kept[0], kept[1], kept[2])
            x = None if g_wgrad is None else _kept_input(ctx, kept_input, drawn)
            dx, dw = _products(ctx, (g, w), (g_wgrad, x), weight)
            if needs_w and g_wgrad is None:
                dw = _weight_gradient_unfolded(ctx, g_c, kept_input, weight, drawn)
            dx = None if dx is None else dx.to(site.state.compute_dtype).to(ctx.dtypes[0])
            dw = None if dw is None else dw.to(weight.dtype)
            if needs_b:
                db = g_c.float().sum([0, *range(2, g_c.dim())]).to(ctx.dtypes[1])
        return dx, dw, db, None, None


def refuse_convolution_casts(name: str, casts: tuple[tuple[str, OperandCast | None], ...], kernel: tuple[int, ...]) -> None:
    """Refuse casts that a convolution cannot multiply exactly.

    Raises:
        ValueError: naming the layer, the operand and what to use.
    """
    for operand, cast in casts:
        if cast is None:
            continue
        if cast.clips:
            raise ValueError(f"{name}: {operand} is '{cast.text}': rule 'quest' is for matrix products, not convolutions")
        if cast.has_tile_scales:
            raise ValueError(
                f"{name}: {operand} is '{cast.text}', whose fp32 block scales vary inside a convolution's sums: use a "
                "power of two, such as [1x128:e8m0] rceil"
            )
        if operand in ("fprop_input", "dgrad_grad_output") and cast.is_row and not cast.is_power:
            raise ValueError(
                f"{name}: {operand} is '{cast.text}', but each position enters several sums of a convolution: use "
                "[tensor], blocks, or rows with a power of two, such as [row:e8m0] rceil"
            )
        if operand.startswith("wgrad") and cast.transform and len(kernel) > 2:
            raise ValueError(f"{name}: {operand} is '{cast.text}': a transform in wgrad needs a 1-D or 2-D convolution")


def _unfolds(site: Site) -> bool:
    """Whether wgrad has a transform: along positions it cancels only once each tap has its own copy of the input."""
    return any(c is not None and c.transform > 0 for c in (site.casts.wgrad_input, site.casts.wgrad_grad_output))


def _input(
    x_c: Tensor, site: Site, geometry: Geometry, drawn: Tensor, *, keeps: bool
) -> tuple[_ChannelOperand, SavedInput | None, Kept]:
    """The input as fprop's operand, and what wgrad will read of it.

    Under one scale the tensor is cast as it lies. Blocks along positions lie in it too where they end with the image.
    """
    context = input_context(site, drawn)
    fprop, wgrad = site.casts.fprop_input, site.casts.wgrad_input
    if keeps and wgrad is not None and fprop == wgrad and wgrad.ignores_axis:
        made, saved, kept = cast_and_keep(x_c.flatten(1), fprop, wgrad, context)
        return _as_it_lies(made, x_c), saved, kept
    a = _by_positions(x_c, fprop, geometry, geometry.in_group, context)
    if not keeps:
        return a, None, (None, None, None)
    if wgrad is None or _unfolds(site):
        return a, SavedInput(None, False), (x_c, None, None)
    if layout.fits(wgrad, x_c.shape[2:].numel()):
        return a, *keep_along_rows(layout.channel_rows(x_c), wgrad, context.next())
    matrix = x_c.flatten(1) if wgrad.ignores_axis else layout.positions_by_channels(x_c)
    return a, *cast_and_keep(matrix, None, wgrad, context)[1:]


def _by_positions(
    x: Tensor, cast: OperandCast | None, geometry: Geometry, group: int, context: CastContext
) -> _ChannelOperand:
    """[N, channels, ...] cast along the channels of each group."""
    if cast is None or cast.ignores_axis:
        made = cast_operand(x.reshape(x.shape[0], -1), cast, 1, context)
        return _as_it_lies(made, x)
    narrowed = layout.ending_with(cast, group)
    if layout.fits(narrowed, group):
        made = cast_operand(layout.channel_rows(x), narrowed, 0, context)
        return _ChannelOperand(made.carrier.reshape(x.shape), made.outer, cast.text, made.is_integer)
    made = cast_operand(layout.positions_by_channels(x).reshape(-1, group), cast, 1, context)
    carrier = made.carrier
    outer = made.outer
    if outer is not None and outer.dim() > 0:  # powers of two by row: exact inside the carrier
        carrier, outer = carrier * outer, None
    positions = carrier.reshape(-1, geometry.groups * carrier.shape[1])
    return _ChannelOperand(layout.from_positions(positions, x), outer, made.format, made.is_integer)


def _weight_for_fprop(weight: Tensor, site: Site, geometry: Geometry, drawn: Tensor) -> _ChannelOperand:
    cast, context = site.casts.fprop_weight, weight_context(site, drawn, 1)
    if cast is None or cast.ignores_axis or cast.is_row:
        made = cast_operand(layout.rows_for_fprop(weight), cast, 1, context)
        return _as_it_lies(made, weight)
    if layout.fits(cast, geometry.in_group):
        matrix = weight.reshape(-1, geometry.taps)  # blocks of input channels, which lie `taps` apart
        return _as_it_lies(cast_operand(matrix, cast, 0, context), weight)
    made = cast_batch(layout.weight_for_fprop(weight), cast, context)
    values = layout.weight_from_fprop(made.carrier, geometry)
    return _ChannelOperand(values, made.outer, made.format, made.is_integer)


def _weight_for_dgrad(weight: Tensor, site: Site, geometry: Geometry, drawn: Tensor) -> _ChannelOperand:
    cast, context = site.casts.dgrad_weight, weight_context(site, drawn, 0)
    if cast is None or cast.ignores_axis:
        made = cast_operand(layout.rows_for_fprop(weight), cast, 1, context)
        return _as_it_lies(made, weight)
    if cast.is_row:
        made = cast_operand(layout.rows_for_dgrad(weight, geometry), cast, 1, context)
        values = layout.rows_from_dgrad(made.carrier, geometry)
        return _ChannelOperand(values, made.outer, made.format, made.is_integer)
    if layout.fits(cast, geometry.out_group):
        return _as_it_lies(cast_operand(weight.flatten(1), cast, 0, context), weight)
    made = cast_batch(layout.weight_for_dgrad(weight, geometry), cast, context)
    values = layout.weight_from_dgrad(made.carrier, geometry)
    return _ChannelOperand(values, made.outer, made.format, made.is_integer)


def _gradients(
    g_c: Tensor, site: Site, geometry: Geometry, drawn: Tensor, needs_x: bool, needs_w: bool
) -> tuple[_ChannelOperand | None, _ChannelOperand | None]:
    """The output's gradient as dgrad's operand, along channels, and as wgrad's, along batch and positions."""
    context = grad_context(site, drawn)
    dgrad, wgrad = site.casts.dgrad_grad_output, site.casts.wgrad_grad_output
    if needs_x and needs_w:
        if dgrad == wgrad and (dgrad is None or dgrad.ignores_axis):
            both = _by_positions(g_c, dgrad, geometry, geometry.out_group, context)
            return both, both
        direct = dgrad is not None and layout.fits(dgrad, geometry.out_group)
        if direct and wgrad is not None and layout.fits(wgrad, g_c.shape[2:].numel()):
            # Rows of the matrix are channels: wgrad's blocks lie along them, dgrad's across.
            crosswise = replace(context, signs=context.signs[::-1])
            along, across = cast_both(layout.channel_rows(g_c), wgrad, dgrad, crosswise)
            return _as_it_lies(across, g_c), _as_it_lies(along, g_c)
    return (
        _by_positions(g_c, dgrad, geometry, geometry.out_group, context) if needs_x else None,
        _along_positions(g_c, wgrad, context.next()) if needs_w else None,
    )


def _as_it_lies(made: Operand, like: Tensor) -> _ChannelOperand:
    return _ChannelOperand(made.carrier.reshape(like.shape), made.outer, made.format, made.is_integer)


def _along_positions(g_c: Tensor, cast: OperandCast | None, context: CastContext) -> _ChannelOperand:
    """A gradient cast along batch and positions."""
    if cast is None or cast.ignores_axis:
        return _as_it_lies(cast_operand(g_c.reshape(g_c.shape[0], -1), cast, 1, context), g_c)
    if layout.fits(cast, g_c.shape[2:].numel()):
        return _as_it_lies(cast_operand(layout.channel_rows(g_c), cast, 1, context), g_c)
    made = cast_operand(layout.positions_by_channels(g_c), cast, 0, context)
    return _ChannelOperand(layout.from_positions(made.carrier, g_c), made.outer, made.format, made.is_integer)


_Pair = tuple[_ChannelOperand | None, _ChannelOperand | None]


def _kept_input(ctx: Any, kept: Kept, drawn: Tensor) -> _ChannelOperand:
    """The input of wgrad, in its own layout."""
    site, saved, wgrad = ctx.site, ctx.saved_input, ctx.site.casts.wgrad_input
    made = kept_operand(kept, saved, wgrad, input_context(site, drawn, kept="third").next())
    lies = saved.axis == 1 or wgrad is None or wgrad.ignores_axis
    like = made.carrier.new_empty(()).expand(ctx.shape)
    values = made.carrier.reshape(ctx.shape) if lies else layout.from_positions(made.carrier, like)
    return _ChannelOperand(values, made.outer, made.format, made.is_integer)


def _products(ctx: Any, dgrad: _Pair, wgrad: _Pair, weight: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and weight; in one call where both take the same gradient of the output."""
    (g, w), (g_w, x), geometry = dgrad, wgrad, ctx.geometry
    dx = dw = None
    if g is not None and w is not None and x is not None and g is g_w and w.format == x.format:
        _announce(ctx.site, "dgrad + wgrad", g, w)
        dtype = layout.wide_dtype(g.is_integer and w.is_integer, 1 << 20)
        dx, dw = _backward(ctx, (g.values, x.values, w.values), dtype, (True, True, False))
    else:
        if g is not None and w is not None:
            _announce(ctx.site, "dgrad", g, w)
            dtype = layout.wide_dtype(g.is_integer and w.is_integer, geometry.out_group * geometry.taps)
            like = g.values.new_empty(()).expand(ctx.shape)  # only its shape is read
            dx, _ = _backward(ctx, (g.values, like, w.values), dtype, (True, False, False))
        if g_w is not None and x is not None:
            _announce(ctx.site, "wgrad", g_w, x)
            dtype = layout.wide_dtype(g_w.is_integer and x.is_integer, 1 << 20)
            _, dw = _backward(ctx, (g_w.values, x.values, weight), dtype, (False, True, False))
    if dx is not None and g is not None and w is not None:
        dx = layout.scaled_by(dx, g.outer, layout.by_channel(w.outer, dx))
    if dw is not None and g_w is not None and x is not None:
        scales = layout.output_scales_of_weight(g_w.outer, geometry), layout.input_scales_of_weight(x.outer, geometry)
        dw = layout.scaled_by(dw, *scales)
    return dx, dw


def _backward(
    ctx: Any, operands: tuple[Tensor, Tensor, Tensor], dtype: torch.dtype, mask: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    wide = (operand.to(dtype) for operand in operands)
    dx, dw, _ = exactly(
        torch.ops.aten.convolution_backward, *wide, None, *ctx.arguments.positional(), mask
    )
    return None if dx is None else dx.float(), None if dw is None else dw.float()


def _weight_gradient_unfolded(ctx: Any, g_c: Tensor, kept: Any, weight: Tensor, drawn: Tensor) -> Tensor:
    """As one GEMM for each group, of the gradient and of a copy of the input for each tap."""
    site, geometry, arguments = ctx.site, ctx.geometry, ctx.arguments
    x, g = kept[0], g_c
    if x.dim() == 3:
        x, g = x.unsqueeze(2), g.unsqueeze(2)
        arguments = arguments.as_2d()
    kernel = (1, *geometry.kernel) if len(geometry.kernel) == 1 else geometry.kernel
    columns = F.unfold(x.float(), kernel, arguments.dilation, arguments.padding, arguments.stride)
    columns = columns.reshape(x.shape[0], geometry.groups, geometry.reduction, -1)
    g = g.reshape(g.shape[0], geometry.groups, geometry.out_group, -1)
    product, parts = product_of(site, torch.float32), []
    for group in range(geometry.groups):
        g_MK = g[:, group].transpose(1, 2).reshape(-1, geometry.out_group)
        x_MR = columns[:, group].transpose(1, 2).reshape(-1, geometry.reduction)
        contexts = (grad_context(site, drawn).next(), input_context(site, drawn).next())
        left, right = (
            cast_operand(t.contiguous(), cast, 0, replace(context, slots=(None, None)))
            for t, cast, context in zip(
                (g_MK, x_MR), (site.casts.wgrad_grad_output, site.casts.wgrad_input), contexts, strict=True
            )
        )
        _announce_formats(site, "wgrad", left.format, right.format)
        parts.append(multiply(transposed(left), right, product))
    return torch.cat(parts).reshape(weight.shape)


def _wide(product: Any, a: _ChannelOperand, b: _ChannelOperand, reduction: int, *rest: Any) -> Tensor:
    dtype = layout.wide_dtype(a.is_integer and b.is_integer, reduction)
    return exactly(product, a.values.to(dtype), b.values.to(dtype), *rest).float()


def _announce(site: Site, gemm: str, a: _ChannelOperand, b: _ChannelOperand) -> None:
    _announce_formats(site, gemm, a.format, b.format)


def _announce_formats(site: Site, gemm: str, a: str, b: str) -> None:
    if site.state.listener is not None:
        site.state.listener.announce(site.name, gemm, (a, b), "emulated")
