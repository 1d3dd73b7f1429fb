"""``torch.addmm`` and its relatives, a product plus a tensor, in a site's casts or a 16-bit compute dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from ._linear import linear
from ._product_sites import is_castable, product, site_of
from ._site import ConversionState
from ._weights import weight_side

_Number = int | float


def addmm(
    state: ConversionState, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor | None:
    """``beta * input + alpha * (mat1_MK @ mat2_KN)``; with a vector ``input`` and a weight ``mat2`` a linear layer."""
    side = weight_side(mat1, mat2)
    if beta == alpha == 1 and input.shape == mat2.shape[1:] and side == "right" and is_castable(input, mat1, mat2):
        site = site_of(state, mat1, mat2, side)
        if site is not None or state.is_16bit:
            return linear(mat1, mat2.t(), input, site or state.functional)
    return _sum(state, input, product(state, mat1, mat2, wide=True), beta, alpha)


def addmv(
    state: ConversionState, input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor | None:
    """``beta * input + alpha * (mat_MK @ vec_K)``."""
    return _sum(state, input, product(state, mat, vec, wide=True), beta, alpha)


def baddbmm(
    state: ConversionState, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor | None:
    """``beta * input + alpha * (batch1_BMK @ batch2_BKN)``."""
    return _sum(state, input, product(state, batch1, batch2, wide=True), beta, alpha)


def addbmm(
    state: ConversionState, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor | None:
    """``beta * input + alpha * sum_B(batch1_BMK @ batch2_BKN)``: one product along B and K together."""
    a_MBK, b_BKN = batch1.transpose(0, 1).flatten(1), batch2.flatten(0, 1)
    return _sum(state, input, product(state, a_MBK, b_BKN, wide=True), beta, alpha)


def _sum(state: ConversionState, input: Tensor, product: Tensor | None, beta: _Number, alpha: _Number) -> Tensor | None:
    """Added in fp32, rounded once; as in torch, ``beta = 0`` ignores even a NaN.

    Under fp16 the sum of two tensors stays in fp32, which holds a mask of the lowest value plus a negative score.
    """
    if product is None or not is_castable(input):
        return None
    dtype = state.compute_dtype
    y = product.float() * alpha
    if beta == 0:
        return y.to(dtype)
    y = y + input.to(dtype).float() * beta
    is_wide = dtype == torch.float16 and input.dim() > 1 and not (state.residual_16bit and input.shape == y.shape)
    return y if is_wide else y.to(dtype)
