"""Convolutions in a 16-bit compute dtype (operands rounded to it, sums in fp32, one rounding), or in casts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._autograd import plain_torch
from ._cast_convolution import CastConvolution
from ._convolution_arguments import ConvolutionArguments, ConvolutionGeometry
from ._convolution_refusals import refuse_convolution_casts
from ._exact_product import exactly
from ._once import OnceFunction, refuse_transforms
from ._operand_watch import see_plain
from ._operands import rounded_to
from ._product_watch import is_torchs_own, shown
from ._site import ConversionState, Site
from ._telling import plain_product
from ._twice import rounded_weight, stand_in, twice


def _again(ctx: Any) -> Any:
    (x, weight), dtype = ctx.saved_tensors, ctx.state.compute_dtype
    x_dtype, bias = ctx.dtypes
    if not ctx.state.is_twice or x_dtype != dtype:
        return None
    b = None if bias is None else stand_in(*bias[1], like=weight, dtype=bias[0])

    def make() -> Tensor:
        operands = x.float(), rounded_weight(weight, dtype), None if b is None else b.float()
        return torch.ops.aten.convolution(*operands, *ctx.arguments.positional())

    return (x, weight, b), make


class ConvolutionFunction(OnceFunction):
    """``aten.convolution``; keeps the 16-bit input, makes the weight's rounding again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        arguments: ConvolutionArguments,
        site: Site,
    ) -> Tensor:
        state = site.state
        dtype, ctx.where = state.compute_dtype, site.name or state.where()
        with plain_torch(state.device_type):
            see_plain(x, "input", "fprop", site, ctx.where)
            see_plain(weight, "weight", "fprop", site, ctx.where)
            x_c = x.to(dtype)
            b_c = None if bias is None else bias.to(dtype)
            y = _convolve(x_c, weight, b_c, arguments, state, ctx.where)
        ctx.save_for_backward(x_c, weight)
        ctx.arguments, ctx.site, ctx.state = arguments, site, state
        ctx.dtypes = (x.dtype, None if bias is None else (bias.dtype, list(bias.shape)))
        return y

    @staticmethod
    @twice(_again)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad,) = grad_outputs
        x_c, weight = ctx.saved_tensors
        state: ConversionState = ctx.state
        x_dtype, bias = ctx.dtypes
        needs_x, needs_w, needs_b = ctx.needs_input_grad[:3]
        sizes: list[int] | None = None if bias is None else bias[1]
        dx = dw = db = None
        with plain_torch(state.device_type):
            see_plain(grad, "grad_output", "dgrad", ctx.site, ctx.where)
            g_c = grad.to(state.compute_dtype)
            if needs_x and state.native_compute:
                with plain_product(state, ctx.where, "dgrad", "native"):
                    dx = _gradients(g_c, x_c, weight.to(x_c.dtype), sizes, ctx.arguments, (True, False, False))[0]
                needs_x = False
            if needs_x or needs_w or needs_b:
                wide = (g_c.float(), x_c.float(), rounded_to(weight, state.compute_dtype, wide=True).float())
                gemm = "dgrad + wgrad" if needs_x and needs_w else "dgrad" if needs_x else "wgrad"
                with plain_product(state, ctx.where, gemm, "emulated"):
                    grads = _gradients(*wide, sizes, ctx.arguments, (needs_x, needs_w, needs_b))
                dx = grads[0] if needs_x else dx
                dw = grads[1].to(weight.dtype) if needs_w else None
                db = grads[2].to(bias[0]) if needs_b and bias is not None else None
            if dx is not None:
                dx = dx.to(state.compute_dtype).to(x_dtype)
        return dx, dw, db, None, None


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, arguments: ConvolutionArguments, site: Site) -> Tensor:
    """A convolution of [N, C, ...] or unbatched [C, ...] input in a site's casts, else in the compute dtype."""
    refuse_transforms(site.name, x, weight)
    refuse_convolution_casts(site.name, site.casts, tuple(weight.shape[2:]))
    batched = x.dim() == weight.dim()
    x = x if batched else x[None]
    if site.state.is_twice and site.casts.is_plain:
        x = x.to(site.state.compute_dtype)
    # No images: nothing to cast, and no block or scale to find.
    if is_torchs_own(site, x, weight):
        with plain_torch(site.state.device_type):
            y: Any = exactly(torch.ops.aten.convolution, x, weight, bias, *arguments.positional())
    elif site.casts.is_plain or arguments.transposed or x.numel() == 0:
        y = ConvolutionFunction.apply(x, weight, bias, arguments, site)
    else:
        y = CastConvolution.apply(x, weight, bias, arguments, site)
    geometry = ConvolutionGeometry(arguments.stride, arguments.padding, arguments.dilation, arguments.groups)
    y = shown(y, site, "convolution", (x, weight), geometry=geometry)
    return y if batched else y[0]


def _convolve(
    x_c: Tensor,
    weight: Tensor,
    b_c: Tensor | None,
    arguments: ConvolutionArguments,
    state: ConversionState,
    where: str,
) -> Tensor:
    dtype = state.compute_dtype
    if state.native_compute:
        with plain_product(state, where, "fprop", "native"):
            return torch.ops.aten.convolution(x_c, weight.to(dtype), b_c, *arguments.positional())
    w = rounded_to(weight, dtype, wide=True).float()
    b = None if b_c is None else b_c.float()
    with plain_product(state, where, "fprop", "emulated"):
        return exactly(torch.ops.aten.convolution, x_c.float(), w, b, *arguments.positional()).to(dtype)


def _gradients(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    bias_sizes: list[int] | None,
    arguments: ConvolutionArguments,
    mask: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor, Tensor]:
    return exactly(torch.ops.aten.convolution_backward, g, x, w, bias_sizes, *arguments.positional(), mask)
