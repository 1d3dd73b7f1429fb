"""A linear map as three GEMMs and six casts: one autograd function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import kernels
from ._autograd import plain_torch
from ._cast_context import CastContext, grad_context, input_context, padded_shape, weight_context
from ._clipping import passed_on, trusted
from ._engines import Product, engine_name, multiply
from ._once import OnceFunction, refuse_transforms
from ._operand import FORMAT_OF_DTYPE, Operand
from ._operand_cast import OperandCast
from ._operand_watch import see, see_plain
from ._operands import cast_both, cast_operand, operand_of, rounded_to, transposed
from ._product_watch import is_torchs_own, shown
from ._saved_input import SavedInput, cast_and_keep, kept_operand
from ._site import Site
from ._telling import product as told
from ._twice import rounded_weight, stand_in, twice
from ._weight_cache import Codes


def _again(ctx: Any) -> Any:
    (x_MK, *_, weight_NK, _drawn, _bits), (x_dtype, bias_dtype) = ctx.saved_tensors, ctx.dtypes
    dtype = ctx.site.state.compute_dtype
    if not (ctx.site.state.is_twice and ctx.site.casts.is_plain and x_dtype == dtype):
        return None
    bias_N = None if bias_dtype is None else stand_in(weight_NK.shape[0], like=weight_NK, dtype=bias_dtype)
    rows = ctx.rows
    x = stand_in(rows, weight_NK.shape[1], like=weight_NK, dtype=dtype) if x_MK is None else x_MK

    def make() -> Tensor:
        bias = None if bias_N is None else bias_N.float()
        return torch.nn.functional.linear(x.float(), rounded_weight(weight_NK, dtype), bias)

    return (x, weight_NK, bias_N), make


class LinearFunction(OnceFunction):
    """``y_MN = x_MK @ weight_NK.T + bias_N`` under a site's casts.

    ``fprop`` multiplies input and weight, ``dgrad`` grad_output and weight, ``wgrad`` grad_output and input;
    each operand is cast along the reduction of its own GEMM. ``fprop`` and ``dgrad`` are rounded once to the
    compute dtype, ``wgrad`` is given unrounded in the weight's dtype. The weight's casts are made again in the
    backward pass, never saved; of the input, what wgrad reads is saved as codes.
    """

    @staticmethod
    def forward(ctx: Any, x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None, site: Site) -> Tensor:
        state, casts = site.state, site.casts
        drawn, ctx.where = site.drawn(), site.name or state.where()
        with plain_torch(state.device_type):
            # The compute dtype's copy of the input is what the backward pass keeps where wgrad has no cast.
            x_c = x_MK.to(state.compute_dtype)
            context = input_context(site, drawn)
            see_plain(x_MK, "input", "fprop", site, ctx.where)
            if ctx.needs_input_grad[1]:
                x, ctx.saved_input, kept = cast_and_keep(x_c, casts.fprop_input, casts.wgrad_input, context)
            else:
                x, ctx.saved_input, kept = cast_operand(x_c, casts.fprop_input, 1, context), None, (None,) * 3
            w = weight_operand(weight_NK, casts.fprop_weight, 1, site, drawn)
            product = product_of(site, state.compute_dtype)
            y_MN = run(site, (ctx.where, "fprop"), x, transposed(w), product, _bias(bias_N, site))
            clipping = casts.fprop_input if ctx.needs_input_grad[0] else None
            bits = trusted(x_c, clipping, context) if clipping is not None and clipping.clips else None
        ctx.site, ctx.rows, ctx.dtypes = site, x_MK.shape[0], (x_MK.dtype, None if bias_N is None else bias_N.dtype)
        ctx.save_for_backward(*kept, weight_NK, drawn, bits)
        return y_MN

    @staticmethod
    @twice(_again)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad_MN,) = grad_outputs
        *kept, weight_NK, drawn, bits = ctx.saved_tensors
        site, (x_dtype, bias_dtype) = ctx.site, ctx.dtypes
        casts, dtype = site.casts, site.state.compute_dtype
        needs_x, needs_w, needs_b = ctx.needs_input_grad[:3]
        dx = dw = db = None
        with plain_torch(site.state.device_type):
            see_plain(grad_MN, "grad_output", "dgrad" if needs_x else "wgrad", site, ctx.where)
            g_c = grad_MN.to(dtype)
            g, g_wgrad = _grad_operands(g_c, site, drawn, needs_x, needs_w)
            if g is not None:
                w = weight_operand(weight_NK, casts.dgrad_weight, 0, site, drawn)
                product = product_of(site, dtype, held_in_fp32=x_dtype == torch.float32)
                dx = run(site, (ctx.where, "dgrad"), g, w, product)
                if bits is not None and casts.fprop_input is not None:
                    dx = passed_on(dx, bits, casts.fprop_input, input_context(site, drawn))
                dx = dx.to(x_dtype)
            if g_wgrad is not None:
                saved: SavedInput = ctx.saved_input
                context = input_context(site, drawn, kept="third").next()
                x = kept_operand((kept[0], kept[1], kept[2]), saved, casts.wgrad_input, context)
                dw = run(site, (ctx.where, "wgrad"), transposed(g_wgrad), x, product_of(site, torch.float32))
                dw = _trusted_weight_gradient(dw, weight_NK, casts.fprop_weight, site, drawn).to(weight_NK.dtype)
            if needs_b:
                db = g_c.sum(0, dtype=torch.float32).to(bias_dtype)
        return dx, dw, db, None


def _trusted_weight_gradient(
    dw_NK: Tensor, weight_NK: Tensor, cast: OperandCast | None, site: Site, drawn: Tensor
) -> Tensor:
    if cast is None or not cast.clips:
        return dw_NK
    context = weight_context(site, drawn, 1)
    return passed_on(dw_NK, trusted(weight_NK, cast, context), cast, context)


def linear(x: Tensor, weight_NK: Tensor, bias_N: Tensor | None, site: Site) -> Tensor:
    """``LinearFunction`` for inputs of any number of dimensions."""
    refuse_transforms(site.name, x, weight_NK)
    if site.state.is_twice and site.casts.is_plain:
        x = x.to(site.state.compute_dtype)
    x_MK = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # where K is 0, -1 would stand for any number
    if is_torchs_own(site, x_MK, weight_NK):
        with plain_torch(site.state.device_type):
            y_MN: Any = torch.nn.functional.linear(x_MK, weight_NK, bias_N)
    else:
        y_MN = LinearFunction.apply(x_MK, weight_NK, bias_N, site)
    y = y_MN.reshape(*x.shape[:-1], weight_NK.shape[0])
    return shown(y, site, "linear", (x, weight_NK))


def weight_operand(w_NK: Tensor, cast: OperandCast | None, axis: int, site: Site, drawn: Tensor) -> Operand:
    """A weight as an operand; from its codes where they were kept since its last update."""
    state, context = site.state, weight_context(site, drawn, axis)
    if cast is None:
        see_plain(w_NK, "weight", "fprop" if axis == 1 else "dgrad", site, state.where())
        dtype = state.compute_dtype
        rounded = rounded_to(w_NK, dtype, wide=context.wide, out=context.memory(w_NK))
        return Operand(rounded, None, FORMAT_OF_DTYPE[dtype])
    kept = kept_weight(w_NK, cast, axis, context)
    return cast_operand(w_NK, cast, axis, context) if kept is None else kept


def kept_weight(w_NK: Tensor, cast: OperandCast, axis: int, context: CastContext) -> Operand | None:
    """A weight as an operand from its codes, where they were kept since its last update."""
    state, codes = context.site.state, None
    # Random casts give new values in every pass, and a history has to see each.
    if cast.is_kept:
        name = f"{context.site.name} {axis} {cast.text}"
        codes = state.weights.codes(
            w_NK, name, state.step, lambda: Codes(*kernels.quantize(w_NK, cast.text, axis=axis))
        )
    if codes is None:
        return None
    see(w_NK, cast, axis, context)
    out, shape = context.memory(w_NK, cast, axis), padded_shape(w_NK, cast, axis)
    carrier = kernels.dequantize(codes.codes, codes.scales, None, cast.text, shape, axis=axis, out=out)
    outer = carrier.new_ones(()) if codes.outer is None else codes.outer
    return operand_of(carrier, outer, cast, axis)


def _bias(bias_N: Tensor | None, site: Site) -> Tensor | None:
    """The bias's values in the compute dtype, as torch's autocast takes them."""
    return None if bias_N is None else bias_N.to(site.state.compute_dtype)


def _grad_operands(
    g_MN: Tensor, site: Site, drawn: Tensor, needs_x: bool, needs_w: bool
) -> tuple[Operand | None, Operand | None]:
    casts, context = site.casts, grad_context(site, drawn)
    if needs_x and needs_w:
        return cast_both(g_MN, casts.dgrad_grad_output, casts.wgrad_grad_output, context)
    return (
        cast_operand(g_MN, casts.dgrad_grad_output, 1, context) if needs_x else None,
        cast_operand(g_MN, casts.wgrad_grad_output, 0, context.next()) if needs_w else None,
    )


def product_of(site: Site, dtype: torch.dtype, *, held_in_fp32: bool = False) -> Product:
    """How a product of a site runs, rounded to ``dtype``."""
    state = site.state
    return Product(
        native_compute=state.native_compute,
        native_fp8=state.native_fp8,
        out_dtype=dtype,
        held_in_fp32=held_in_fp32,
        workspace=state.current.workspace,
        accumulator=site.casts.accumulator,
    )


def run(
    site: Site, label: tuple[str, str], a: Operand, b: Operand, product: Product, bias_N: Tensor | None = None
) -> Tensor:
    """A product of a site, told under its label (where, which GEMM) to whoever observes."""
    if site.state.listener is None:
        return multiply(a, b, product, bias_N)
    with told(site.state, *label, (a.format, b.format), engine_name(a, b, product)):
        return multiply(a, b, product, bias_N)
