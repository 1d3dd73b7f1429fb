"""Convolutions whose six operands have casts: one autograd function."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import _convolution_layout as layout
from ._autograd import plain_torch
from ._cast_context import grad_context, input_context
from ._convolution_arguments import ConvolutionArguments
from ._convolution_layout import Geometry
from ._convolution_operands import (
    ChannelOperand,
    along_channels,
    both_gradients,
    gradient_for_wgrad,
    input_and_kept,
    kept_input,
    weight_for_dgrad,
    weight_for_fprop,
)
from ._engines import multiply, with_outer_scales
from ._exact_product import exactly
from ._linear import product_of
from ._once import OnceFunction, once
from ._operand_watch import see_plain
from ._operands import cast_operand, transposed
from ._producer import costs_nothing_to_keep
from ._saved_input import Kept
from ._site import Site
from ._telling import product as told

_ENDLESS = 1 << 20  # a reduction that no fp32 sum of integers is sure to hold


class CastConvolution(OnceFunction):
    """``aten.convolution`` of [N, C, ...] under a site's casts; of the input, what wgrad reads is kept as codes."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, arguments: ConvolutionArguments, site: Site
    ) -> Tensor:
        state, casts = site.state, site.casts
        drawn, dtype = site.drawn(), state.compute_dtype
        geometry = Geometry.of(weight, arguments.groups)
        ctx.where = site.name or state.where()
        with plain_torch(state.device_type):
            see_plain(x, "input", "fprop", site, ctx.where)
            see_plain(weight, "weight", "fprop", site, ctx.where)
            x_c = x.to(dtype)
            keeps = ctx.needs_input_grad[1]
            if keeps and not _reads_itself(site, x, x_c):
                a, ctx.saved_input, kept = input_and_kept(x_c, geometry, site, drawn)
            else:
                a = along_channels(x_c, casts.fprop_input, geometry, input_context(site, drawn))
                ctx.saved_input, kept = None, (x_c if keeps else None, None, None)
            b = weight_for_fprop(weight, geometry, site, drawn)
            wide = layout.wide_dtype(a.is_integer and b.is_integer, geometry.reduction)
            operands = (a.values.to(wide), b.values.to(wide), None)
            with told(state, ctx.where, "fprop", (a.format, b.format), "emulated"):
                y = exactly(torch.ops.aten.convolution, *operands, *arguments.positional()).float()
            y = with_outer_scales(y, a.outer, layout.by_channel(b.outer, y))
            if bias is not None:
                y = y.add_(bias.to(dtype).float().reshape(1, -1, *(1,) * (y.dim() - 2)))
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
            see_plain(grad, "grad_output", "dgrad" if needs_x else "wgrad", site, ctx.where)
            g_c = grad.to(site.state.compute_dtype)
            kept_parts = (kept[0], kept[1], kept[2])
            folds = needs_w and not _unfolds(site)
            if needs_x and folds:
                dx, dw = _both_gradients(ctx, g_c, kept_parts, weight, drawn)
            elif needs_x:
                g = along_channels(g_c, site.casts.dgrad_grad_output, ctx.geometry, grad_context(site, drawn))
                dx = _input_gradient(ctx, g, weight, drawn)
            elif folds:
                g = gradient_for_wgrad(g_c, ctx.geometry, site, drawn)
                dw = _weight_gradient(ctx, g, kept_parts, weight, drawn)
            if needs_w and not folds:
                dw = _weight_gradient_unfolded(ctx, g_c, kept_parts, weight, drawn)
            dx = None if dx is None else dx.to(site.state.compute_dtype).to(ctx.dtypes[0])
            dw = None if dw is None else dw.to(weight.dtype)
            if needs_b:
                db = g_c.float().sum([0, *range(2, g_c.dim())]).to(ctx.dtypes[1])
        return dx, dw, db, None, None


def _reads_itself(site: Site, x: Tensor, x_c: Tensor) -> bool:
    """Whether wgrad reads the input in the compute dtype: unfolded, or because that is kept anyway."""
    cast = site.casts.wgrad_input
    return _unfolds(site) or (x is x_c and cast is not None and costs_nothing_to_keep(x, cast))


def _unfolds(site: Site) -> bool:
    """Whether wgrad has a transform: along positions it cancels only once each tap has its own copy of the input."""
    return any(c is not None and c.transform > 0 for c in (site.casts.wgrad_input, site.casts.wgrad_grad_output))


def _both_gradients(ctx: Any, g_c: Tensor, kept: Kept, weight: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """Of input and weight; in one call where both take the same operand of the output's gradient."""
    site, geometry = ctx.site, ctx.geometry
    g, g_wgrad = both_gradients(g_c, geometry, site, drawn)
    dgrad_weight, wgrad_input = site.casts.dgrad_weight, site.casts.wgrad_input
    same = (dgrad_weight and dgrad_weight.text) == (wgrad_input and wgrad_input.text)
    if g is not g_wgrad or not same:
        return _input_gradient(ctx, g, weight, drawn), _weight_gradient(ctx, g_wgrad, kept, weight, drawn)
    w = weight_for_dgrad(weight, geometry, site, drawn)
    x = kept_input(kept, ctx.saved_input, geometry, ctx.shape, site, drawn)
    dtype = layout.wide_dtype(g.is_integer and x.is_integer, _ENDLESS)
    dx, dw = _gradients(ctx, "dgrad + wgrad", (g, w), (g.values, x.values, w.values), dtype)
    scales = layout.output_scales_of_weight(g.outer, geometry), layout.input_scales_of_weight(x.outer, geometry)
    return with_outer_scales(dx, g.outer, layout.by_channel(w.outer, dx)), with_outer_scales(dw, *scales)


def _input_gradient(ctx: Any, g: ChannelOperand, weight: Tensor, drawn: Tensor) -> Tensor:
    site, geometry = ctx.site, ctx.geometry
    w = weight_for_dgrad(weight, geometry, site, drawn)
    # Of the input only the shape is read, but torch would first lay out plainly what is not.
    unread = site.state.current.workspace.take("third", ctx.shape, g.values.device)
    x = g.values.new_empty(list(ctx.shape)) if unread is None else unread
    dtype = layout.wide_dtype(g.is_integer and w.is_integer, geometry.out_group * geometry.taps)
    dx = _gradients(ctx, "dgrad", (g, w), (g.values, x, w.values), dtype)[0]
    return with_outer_scales(dx, g.outer, layout.by_channel(w.outer, dx))


def _weight_gradient(ctx: Any, g: ChannelOperand, kept: Kept, weight: Tensor, drawn: Tensor) -> Tensor:
    site, geometry = ctx.site, ctx.geometry
    x = kept_input(kept, ctx.saved_input, geometry, ctx.shape, site, drawn)
    dtype = layout.wide_dtype(g.is_integer and x.is_integer, g.values.numel() // max(g.values.shape[1], 1))
    dw = _gradients(ctx, "wgrad", (g, x), (g.values, x.values, weight), dtype)[1]
    scales = layout.output_scales_of_weight(g.outer, geometry), layout.input_scales_of_weight(x.outer, geometry)
    return with_outer_scales(dw, *scales)


def _gradients(
    ctx: Any,
    gemm: str,
    operands: tuple[ChannelOperand, ChannelOperand],
    tensors: tuple[Tensor, Tensor, Tensor],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """What a GEMM, or both, give of (gradient, input, weight); of what is not an operand only the shape is read."""
    mask = ("dgrad" in gemm, "wgrad" in gemm, False)
    formats = operands[0].format, operands[1].format
    wide = (t.to(dtype) for t in tensors)
    with told(ctx.site.state, ctx.where, gemm, formats, "emulated"):
        grads = exactly(torch.ops.aten.convolution_backward, *wide, None, *ctx.arguments.positional(), mask)
    empty = tensors[0].new_empty(0)
    return (grads[0].float() if mask[0] else empty), (grads[1].float() if mask[1] else empty)


def _weight_gradient_unfolded(ctx: Any, g_c: Tensor, kept: Kept, weight: Tensor, drawn: Tensor) -> Tensor:
    """As one GEMM for each group, of the gradient and of a copy of the input for each tap."""
    site, geometry, arguments = ctx.site, ctx.geometry, ctx.arguments
    x, g = kept[0], g_c
    if x is None:
        raise RuntimeError(f"{ctx.where}: nothing was kept of the input for the weight's gradient")
    kernel = geometry.kernel
    if x.dim() == 3:
        x, g, kernel, arguments = x.unsqueeze(2), g.unsqueeze(2), (1, *kernel), arguments.as_2d()
    columns = F.unfold(x.float(), kernel, arguments.dilation, arguments.padding, arguments.stride)
    columns = columns.reshape(x.shape[0], geometry.groups, geometry.reduction, -1)
    g = g.reshape(g.shape[0], geometry.groups, geometry.out_group, -1)
    casts = site.casts.wgrad_grad_output, site.casts.wgrad_input
    contexts = grad_context(site, drawn).next().unplaced, input_context(site, drawn).next().unplaced
    product, parts = product_of(site, torch.float32), []
    for group in range(geometry.groups):
        matrices = (t[:, group].transpose(1, 2).flatten(0, 1).contiguous() for t in (g, columns))
        left, right = (cast_operand(t, c, 0, context) for t, c, context in zip(matrices, casts, contexts, strict=True))
        with told(site.state, ctx.where, "wgrad", (left.format, right.format), "emulated"):
            parts.append(multiply(transposed(left), right, product))
    return torch.cat(parts).reshape(weight.shape)
