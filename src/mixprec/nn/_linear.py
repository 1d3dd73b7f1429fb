"""A linear map as three GEMMs and six casts: one autograd function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._autograd import plain_torch
from ._engines import FORMAT_OF_DTYPE, Operand, Product, engine_name, multiply
from ._operands import CastContext, cast_both, cast_operand, rounded_to, transposed
from ._site import OperandCast, Site

# Offsets of the operands' random streams within a site.
_INPUT, _WEIGHT, _WEIGHT_BACKWARD, _GRAD = 0, 2, 3, 4


class LinearFunction(torch.autograd.Function):
    """``y_MN = x_MK @ weight_NK.T + bias_N`` under a site's casts.

    ``fprop`` multiplies input and weight, ``dgrad`` grad_output and weight, ``wgrad`` grad_output and input;
    each operand is cast along the reduction of its own GEMM. ``fprop`` and ``dgrad`` are rounded once to the
    compute dtype, ``wgrad`` is given unrounded in the weight's dtype. The weight's casts are made again in the
    backward pass, never saved.
    """

    @staticmethod
    def forward(ctx: Any, x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None, site: Site) -> Tensor:
        state, casts = site.state, site.casts
        with plain_torch(state.device_type):
            dtype = state.compute_dtype
            # The compute dtype's copy of the input is what the backward pass keeps.
            x_c = x_MK.to(dtype)
            keeps = None if state.is_16bit or not ctx.needs_input_grad[1] else casts.wgrad_input
            saves_cast = keeps is not None
            shared = keeps is not None and keeps == casts.fprop_input and keeps.ignores_axis
            context = _context(site, state.drawn, _INPUT, (None if shared else "first", None))
            if saves_cast:
                x, x_wgrad = cast_both(x_c, casts.fprop_input, casts.wgrad_input, context)
            else:
                x, x_wgrad = cast_operand(x_c, casts.fprop_input, 1, context), None
            w = _weight_operand(weight_NK, casts.fprop_weight, 1, site, _WEIGHT, state.drawn)
            y_MN = _run(site, "fprop", x, transposed(w), _product(site, dtype), _bias(bias_N, site))
        ctx.site, ctx.dtypes = site, (x_MK.dtype, None if bias_N is None else bias_N.dtype)
        ctx.kept = None if x_wgrad is None else x_wgrad.format
        keeps_input = ctx.needs_input_grad[1]
        kept = (x_c if x_wgrad is None else x_wgrad.carrier) if keeps_input else None
        ctx.save_for_backward(kept, None if x_wgrad is None else x_wgrad.outer, weight_NK, state.drawn)
        return y_MN

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad_MN,) = grad_outputs
        kept, outer, weight_NK, drawn = ctx.saved_tensors
        site, (x_dtype, bias_dtype) = ctx.site, ctx.dtypes
        casts, dtype = site.casts, site.state.compute_dtype
        needs_x, needs_w, needs_b = ctx.needs_input_grad[:3]
        dx = dw = db = None
        with plain_torch(site.state.device_type):
            g_c = grad_MN.to(dtype)
            context = _context(site, drawn, _GRAD, ("first", "second"))
            g, g_wgrad = _grad_operands(g_c, site, context, needs_x, needs_w)
            if g is not None:
                w = _weight_operand(weight_NK, casts.dgrad_weight, 0, site, _WEIGHT_BACKWARD, drawn)
                product = _product(site, dtype, held_in_fp32=x_dtype == torch.float32)
                dx = _run(site, "dgrad", g, w, product).to(x_dtype)
            if g_wgrad is not None:
                if ctx.kept is None:
                    x = cast_operand(kept, casts.wgrad_input, 0, _context(site, drawn, _INPUT, (None, "third")).next())
                else:
                    x = Operand(kept, outer, ctx.kept)
                dw = _run(site, "wgrad", transposed(g_wgrad), x, _product(site, torch.float32)).to(weight_NK.dtype)
            if needs_b:
                db = g_c.sum(0, dtype=torch.float32).to(bias_dtype)
        return dx, dw, db, None


def linear(x: Tensor, weight_NK: Tensor, bias_N: Tensor | None, site: Site) -> Tensor:
    """``LinearFunction`` for inputs of any number of dimensions."""
    y_MN: Any = LinearFunction.apply(x.reshape(-1, x.shape[-1]), weight_NK, bias_N, site)
    return y_MN.reshape(*x.shape[:-1], weight_NK.shape[0])


def _weight_operand(
    w_NK: Tensor, cast: OperandCast | None, axis: int, site: Site, stream: int, drawn: Tensor
) -> Operand:
    if cast is None:
        dtype = site.state.compute_dtype
        out = site.state.workspace.take("weight", w_NK.shape, w_NK.device)
        rounded = rounded_to(w_NK, dtype, wide=not site.state.native_compute, out=out)
        return Operand(rounded, None, FORMAT_OF_DTYPE[dtype])
    return cast_operand(w_NK, cast, axis, _context(site, drawn, stream, ("weight", None)))


def _bias(bias_N: Tensor | None, site: Site) -> Tensor | None:
    """The bias's values in the compute dtype, as torch's autocast takes them."""
    return None if bias_N is None else bias_N.to(site.state.compute_dtype)


def _grad_operands(
    g_MN: Tensor, site: Site, context: CastContext, needs_x: bool, needs_w: bool
) -> tuple[Operand | None, Operand | None]:
    casts = site.casts
    if needs_x and needs_w:
        return cast_both(g_MN, casts.dgrad_grad_output, casts.wgrad_grad_output, context)
    return (
        cast_operand(g_MN, casts.dgrad_grad_output, 1, context) if needs_x else None,
        cast_operand(g_MN, casts.wgrad_grad_output, 0, context.next()) if needs_w else None,
    )


def _context(site: Site, drawn: Tensor, stream: int, slots: tuple[str | None, str | None]) -> CastContext:
    state = site.state
    return CastContext(
        random=drawn,
        stream=site.stream + stream,
        wide=not state.native_compute,
        workspace=state.workspace,
        slots=slots,
    )


def _product(site: Site, dtype: torch.dtype, *, held_in_fp32: bool = False) -> Product:
    state = site.state
    return Product(
        native_compute=state.native_compute,
        native_fp8=state.native_fp8,
        out_dtype=dtype,
        held_in_fp32=held_in_fp32,
        workspace=state.workspace,
    )


def _run(site: Site, gemm: str, a: Operand, b: Operand, product: Product, bias_N: Tensor | None = None) -> Tensor:
    observer = site.state.listener
    if observer is not None:
        observer.announce(site.name, gemm, (a.format, b.format), engine_name(a, b, product))
    return multiply(a, b, product, bias_N)
