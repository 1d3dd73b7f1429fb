"""Batched products whose six operands have casts of their own: one autograd function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._autograd import plain_torch
from ._batched_operands import (
    Packed,
    cast_batch,
    cast_weight_batch,
    one_of,
    pack_batch,
    passed_on_batch,
    transposed_batch,
    trusted_batch,
    unpack_batch,
)
from ._cast_context import CastContext, grad_context, input_context, weight_context
from ._engines import Product, multiply
from ._exact_product import exactly
from ._linear import product_of
from ._once import OnceFunction, once
from ._operand import Operand
from ._operand_cast import OperandCast
from ._operand_watch import see_plain
from ._site import Site
from ._special_products import needs_more_than_one_gemm
from ._telling import product as told


class CastBatchedProduct(OnceFunction):
    """``a_BMK @ b_BKN`` under a site's casts: ``a`` has those of the input, ``b`` those of the weight.

    What the backward pass reads of each operand is kept as codes where it has a cast, else in the compute dtype. Where
    ``b`` is a weight, casts read it as it is kept, and its gradient is not rounded.
    """

    @staticmethod
    def forward(ctx: Any, a_BMK: Tensor, b_BKN: Tensor, site: Site, wide: bool, has_weight: bool) -> Tensor:
        state, casts = site.state, site.casts
        drawn, dtype = site.drawn(), state.compute_dtype
        ctx.where, ctx.has_weight = site.name or state.where(), has_weight
        with plain_torch(state.device_type):
            see_plain(a_BMK, "input", "fprop", site, ctx.where)
            see_plain(b_BKN, "weight", "fprop", site, ctx.where)
            a_c, b_c = a_BMK.to(dtype), b_BKN if has_weight else b_BKN.to(dtype)
            a = cast_batch(a_c, casts.fprop_input, input_context(site, drawn).unplaced)
            b = _second(b_c, casts.fprop_weight, weight_context(site, drawn, 1).unplaced, has_weight, transpose=True)
            y_BMN = _run(site, (ctx.where, "fprop"), a, transposed_batch(b), torch.float32 if wide else dtype)
            needs_a, needs_b = ctx.needs_input_grad[:2]
            of_a, of_b = input_context(site, drawn).unplaced, weight_context(site, drawn, 1).unplaced
            bits_a = trusted_batch(a_c, casts.fprop_input, of_a) if needs_a else None
            bits_b = trusted_batch(b_c.transpose(1, 2), casts.fprop_weight, of_b) if needs_b else None
            contexts = input_context(site, drawn).next().unplaced, weight_context(site, drawn, 0).unplaced
            kept_a = _keep(a_c.transpose(1, 2), casts.wgrad_input, contexts[0]) if needs_b else None
            # A weight is there anyway, and cast again.
            kept_b = (b_c if has_weight else _keep(b_c, casts.dgrad_weight, contexts[1])) if needs_a else None
        ctx.site, ctx.dtypes = site, (a_BMK.dtype, b_BKN.dtype)
        ctx.shapes = tuple(k.shape if isinstance(k, Packed) else None for k in (kept_a, kept_b))
        ctx.save_for_backward(*_tensors(kept_a), *_tensors(kept_b), drawn, bits_a, bits_b)
        return y_BMN

    @staticmethod
    @once
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad_BMN,) = grad_outputs
        *kept, drawn, bits_a, bits_b = ctx.saved_tensors
        site: Site = ctx.site
        casts, dtype = site.casts, site.state.compute_dtype
        da = db = None
        with plain_torch(site.state.device_type):
            see_plain(grad_BMN, "grad_output", "dgrad" if ctx.needs_input_grad[0] else "wgrad", site, ctx.where)
            g_BMN, context = grad_BMN.to(dtype), grad_context(site, drawn)
            if ctx.needs_input_grad[0]:
                g = cast_batch(g_BMN, casts.dgrad_grad_output, context.unplaced)
                unplaced = weight_context(site, drawn, 0).unplaced
                b = (
                    _second(kept[3], casts.dgrad_weight, unplaced, ctx.has_weight, transpose=False)
                    if ctx.shapes[1] is None
                    else _kept(kept[3:6], ctx.shapes[1], casts.dgrad_weight, unplaced)
                )
                da = _run(site, (ctx.where, "dgrad"), g, transposed_batch(b), dtype)
                da = passed_on_batch(da, bits_a, casts.fprop_input, input_context(site, drawn).unplaced)
                da = da.to(ctx.dtypes[0])
            if ctx.needs_input_grad[1]:
                g = cast_batch(g_BMN.transpose(1, 2), casts.wgrad_grad_output, context.next().unplaced)
                a = _kept(kept[:3], ctx.shapes[0], casts.wgrad_input, input_context(site, drawn).next().unplaced)
                sums = torch.float32 if ctx.has_weight else dtype
                db = _run(site, (ctx.where, "wgrad"), a, transposed_batch(g), sums).transpose(1, 2)
                db = passed_on_batch(db, bits_b, casts.fprop_weight, weight_context(site, drawn, 1).unplaced)
                db = db.transpose(1, 2).to(ctx.dtypes[1])
        return da, db, None, None, None


def _second(
    b_BKN: Tensor, cast: OperandCast | None, context: CastContext, has_weight: bool, *, transpose: bool
) -> Operand:
    def matrices() -> Tensor:
        return b_BKN.transpose(1, 2) if transpose else b_BKN

    return cast_weight_batch(b_BKN, matrices, cast, context) if has_weight else cast_batch(matrices(), cast, context)


def _keep(x_BRC: Tensor, cast: OperandCast | None, context: CastContext) -> Packed | Tensor:
    if cast is None or not cast.scaled:
        return x_BRC
    return pack_batch(x_BRC, cast, context)


def _tensors(kept: Packed | Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return (kept.codes, kept.scales, kept.outer) if isinstance(kept, Packed) else (kept, None, None)


def _kept(
    parts: list[Tensor], shape: tuple[int, int, int] | None, cast: OperandCast | None, context: CastContext
) -> Operand:
    if shape is None or cast is None:
        return cast_batch(parts[0], cast, context)
    return unpack_batch(Packed(parts[0], parts[1], parts[2], shape), cast)


def _run(site: Site, label: tuple[str, str], a: Operand, b: Operand, dtype: torch.dtype) -> Tensor:
    product = product_of(site, dtype)
    with told(site.state, *label, (a.format, b.format), "emulated"):
        if needs_more_than_one_gemm(a, b, product.accumulator, a.carrier.shape[2]):
            return _one_by_one(a, b, product)
        y_BMN = exactly(torch.bmm, a.carrier.float(), b.carrier.float())
        for outer in (a.outer, b.outer):
            y_BMN = y_BMN if outer is None else y_BMN.mul_(outer)
        return y_BMN.to(dtype)


def _one_by_one(a: Operand, b: Operand, product: Product) -> Tensor:
    y = [multiply(one_of(a, i), one_of(b, i), product) for i in range(a.carrier.shape[0])]
    if y:
        return torch.stack(y)
    return a.carrier.new_zeros(0, a.carrier.shape[1], b.carrier.shape[2], dtype=product.out_dtype)
