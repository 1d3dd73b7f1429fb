"""Matrix products of activations (``torch.matmul``, ``bmm``, ``@``, ``einsum``)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ._autograd import plain_torch
from ._batched_product import CastBatchedProduct
from ._exact_product import exactly
from ._once import OnceFunction, refuse_transforms
from ._operand_watch import see_plain
from ._product_watch import shown
from ._site import ConversionState, Site
from ._telling import plain_product
from ._twice import twice


def _again(ctx: Any) -> Any:
    (a_BMK, b_BKN), dtype = ctx.saved_tensors, ctx.state.compute_dtype
    if not ctx.state.is_twice or ctx.dtypes != (dtype, dtype):
        return None
    return (a_BMK, b_BKN), lambda: torch.bmm(a_BMK.float(), b_BKN.float())


class BatchedProduct(OnceFunction):
    """``a_BMK @ b_BKN`` of 16-bit values with fp32 sums, rounded once unless ``wide``; keeps the 16-bit operands.

    The gradient of a weight ``b`` is not rounded.
    """

    @staticmethod
    def forward(ctx: Any, a_BMK: Tensor, b_BKN: Tensor, state: ConversionState, wide: bool, has_weight: bool) -> Tensor:
        ctx.state, ctx.where, ctx.has_weight = state, state.where(), has_weight
        ctx.dtypes = a_BMK.dtype, b_BKN.dtype
        with plain_torch(state.device_type):
            see_plain(a_BMK, "input", "fprop", state.functional, ctx.where)
            see_plain(b_BKN, "weight", "fprop", state.functional, ctx.where)
            a_c, b_c = a_BMK.to(state.compute_dtype), b_BKN.to(state.compute_dtype)
            ctx.save_for_backward(a_c, b_c)
            return _product(a_c, b_c, state, (ctx.where, "fprop"), wide)

    @staticmethod
    @twice(_again)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, Tensor | None, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad_BMN,) = grad_outputs
        a_BMK, b_BKN = ctx.saved_tensors
        state = ctx.state
        da = db = None
        with plain_torch(state.device_type):
            see_plain(grad_BMN, "grad_output", "dgrad", state.functional, ctx.where)
            g_BMN = grad_BMN.to(state.compute_dtype)
            if ctx.needs_input_grad[0]:
                da = _product(g_BMN, b_BKN.transpose(1, 2), state, (ctx.where, "dgrad")).to(ctx.dtypes[0])
            if ctx.needs_input_grad[1]:
                wgrad = _product(a_BMK.transpose(1, 2), g_BMN, state, (ctx.where, "wgrad"), wide=ctx.has_weight)
                db = wgrad.to(ctx.dtypes[1])
        return da, db, None, None, None


def _product(
    a_BMK: Tensor, b_BKN: Tensor, state: ConversionState, label: tuple[str, str], wide: bool = False
) -> Tensor:
    # torch's CPU product of 16-bit operands rounds its result; a CUDA device can give the fp32 sums.
    native = state.native_compute and (not wide or a_BMK.device.type == "cuda")
    with plain_product(state, *label, "native" if native else "emulated"):
        if native:
            return torch.bmm(a_BMK, b_BKN, out_dtype=torch.float32) if wide else torch.bmm(a_BMK, b_BKN)
        y_BMN = exactly(torch.bmm, a_BMK.float(), b_BKN.float())
    return y_BMN if wide else y_BMN.to(state.compute_dtype)


def matmul(
    a: Tensor, b: Tensor, site: Site, *, wide: bool = False, has_weight: bool = False, spares_outer: bool = True
) -> Tensor:
    """``torch.matmul(a, b)`` with its broadcasting, operands cast as the site says, else rounded to the compute dtype.

    The sums are rounded once, or stay in fp32 where they are wanted ``wide``. A product of activations whose reduction
    has length one is an outer product, not a GEMM: unless ``spares_outer`` is off, it stays in the dtype of its
    operands (positions times frequencies of a rotary table would lose their low digits). If it ``has_weight``, that is
    ``b``: cast from what it is kept in, and its gradient is not rounded.
    """
    refuse_transforms(site.name, a, b)
    if a.dim() == 0 or b.dim() == 0 or (a.shape[-1] == 1 and spares_outer and not has_weight):
        return _as_they_are(a, b, site.state)
    a2, b2 = a[None] if a.dim() == 1 else a, b[:, None] if b.dim() == 1 else b
    batch = torch.broadcast_shapes(a2.shape[:-2], b2.shape[:-2])
    count = math.prod(batch)  # of an empty matrix -1 would stand for any number
    a3 = a2.expand(*batch, *a2.shape[-2:]).reshape(count, *a2.shape[-2:])
    b3 = b2.expand(*batch, *b2.shape[-2:]).reshape(count, *b2.shape[-2:])
    if site.state.is_twice and site.casts.is_plain and not has_weight:
        a3, b3 = a3.to(site.state.compute_dtype), b3.to(site.state.compute_dtype)
    product: Any = (
        BatchedProduct.apply(a3, b3, site.state, wide, has_weight)
        if site.casts.is_plain
        else CastBatchedProduct.apply(a3, b3, site, wide, has_weight)
    )
    y = product.reshape(*batch, a2.shape[-2], b2.shape[-1])
    if b.dim() == 1:
        y = y.squeeze(-1)
    y = y.squeeze(-1 if b.dim() == 1 else -2) if a.dim() == 1 else y
    return shown(y, site, "matmul", (a, b), has_weight=has_weight)


def _as_they_are(a: Tensor, b: Tensor, state: ConversionState) -> Tensor:
    wide = torch.promote_types(a.dtype, b.dtype)
    with torch.autocast(state.device_type, enabled=False):
        return torch.matmul(a.to(wide), b.to(wide))
