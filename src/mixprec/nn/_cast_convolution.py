"""Convolutions whose six operands have casts: one autograd function."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import _convolution_layout as layout
from ._autograd import plain_torch
from ._convolution_arguments import ConvolutionArguments
from ._convolution_layout import Geometry
from ._convolution_operands import (
    ChannelOperand,
    gradients,
    input_operand,
    kept_input,
    unfolds,
    unplaced,
    weight_for_dgrad,
    weight_for_fprop,
)
from ._engines import multiply
from ._exact_product import exactly
from ._linear import grad_context, input_context, product_of
from ._once import OnceFunction, once
from ._operands import cast_operand, transposed
from ._saved_input import Kept
from ._site import Site
from ._telling import product as told


class CastConvolution(OnceFunction):
    """``aten.convolution`` of [N, C, ...] under a site's casts; of the input, what wgrad reads is kept as codes."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, arguments: ConvolutionArguments, site: Site
    ) -> Tensor:
        state = site.state
        drawn, dtype = state.current.drawn, state.compute_dtype
        geometry = Geometry.of(weight, arguments.groups)
        ctx.where = site.name or state.where()
        with plain_torch(state.device_type):
            x_c = x.to(dtype)
            a, ctx.saved_input, kept = input_operand(x_c, geometry, site, drawn, keeps=ctx.needs_input_grad[1])
            b = weight_for_fprop(weight, geometry, site, drawn)
            wide = layout.wide_dtype(a.is_integer and b.is_integer, geometry.reduction)
            operands = (a.values.to(wide), b.values.to(wide), None)
            with told(state, ctx.where, "fprop", (a.format, b.format), "emulated"):
                y = exactly(torch.ops.aten.convolution, *operands, *arguments.positional()).float()
            y = layout.scaled_by(y, a.outer, layout.by_channel(b.outer, y))
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
            g_c = grad.to(site.state.compute_dtype)
            g, g_wgrad = gradients(g_c, ctx.geometry, site, drawn, (needs_x, needs_w and not unfolds(site)))
            if g is not None:
                dx = _input_gradient(ctx, g, weight, drawn).to(site.state.compute_dtype).to(ctx.dtypes[0])
            of_input = (kept[0], kept[1], kept[2])
            if g_wgrad is not None:
                dw = _weight_gradient(ctx, g_wgrad, of_input, weight, drawn).to(weight.dtype)
            elif needs_w:
                dw = _weight_gradient_unfolded(ctx, g_c, of_input, weight, drawn).to(weight.dtype)
            if needs_b:
                db = g_c.float().sum([0, *range(2, g_c.dim())]).to(ctx.dtypes[1])
        return dx, dw, db, None, None


def _input_gradient(ctx: Any, g: ChannelOperand, weight: Tensor, drawn: Tensor) -> Tensor:
    site, geometry = ctx.site, ctx.geometry
    w = weight_for_dgrad(weight, geometry, site, drawn)
    shape = list(ctx.shape)
    x = g.values.new_empty(()).expand(shape)  # only its shape is read
    dx = _gradient(ctx, "dgrad", g, w, (g.values, x, w.values), geometry.out_group * geometry.taps)
    return layout.scaled_by(dx, g.outer, layout.by_channel(w.outer, dx))


def _weight_gradient(ctx: Any, g: ChannelOperand, kept: Kept, weight: Tensor, drawn: Tensor) -> Tensor:
    site, geometry = ctx.site, ctx.geometry
    like = g.values.new_empty(()).expand(ctx.shape)
    x = kept_input(kept, ctx.saved_input, geometry, like, site, drawn)
    positions = g.values.numel() // max(g.values.shape[1], 1)
    dw = _gradient(ctx, "wgrad", g, x, (g.values, x.values, weight), positions)
    scales = layout.output_scales_of_weight(g.outer, geometry), layout.input_scales_of_weight(x.outer, geometry)
    return layout.scaled_by(dw, *scales)


def _gradient(
    ctx: Any,
    gemm: str,
    a: ChannelOperand,
    b: ChannelOperand,
    tensors: tuple[Tensor, Tensor, Tensor],
    reduction: int,
) -> Tensor:
    """The gradient that a GEMM gives, of (gradient, input, weight); of the third of them only the shape is read."""
    dtype = layout.wide_dtype(a.is_integer and b.is_integer, reduction)
    mask = (gemm == "dgrad", gemm == "wgrad", False)
    operands = (t.to(dtype) for t in tensors)
    with told(ctx.site.state, ctx.where, gemm, (a.format, b.format), "emulated"):
        grads = exactly(torch.ops.aten.convolution_backward, *operands, None, *ctx.arguments.positional(), mask)
    return grads[0 if gemm == "dgrad" else 1].float()


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
    contexts = unplaced(grad_context(site, drawn).next()), unplaced(input_context(site, drawn).next())
    product, parts = product_of(site, torch.float32), []
    for group in range(geometry.groups):
        matrices = (t[:, group].transpose(1, 2).flatten(0, 1).contiguous() for t in (g, columns))
        left, right = (cast_operand(t, c, 0, context) for t, c, context in zip(matrices, casts, contexts, strict=True))
        with told(site.state, ctx.where, "wgrad", (left.format, right.format), "emulated"):
            parts.append(multiply(transposed(left), right, product))
    return torch.cat(parts).reshape(weight.shape)
