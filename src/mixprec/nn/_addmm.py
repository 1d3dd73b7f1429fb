"""``torch.addmm`` and its relatives, a product plus a tensor, in a site's casts or a 16-bit compute dtype."""

from __future__ import annotations

from torch import Tensor

from ._linear import linear
from ._matmul import matmul
from ._site import Site

_Number = int | float


def addmm(
    site: Site, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor:
    """``beta * input + alpha * (mat1_MK @ mat2_KN)``; with a vector ``input`` a linear layer on ``mat2.T``."""
    if beta == alpha == 1 and input.shape == mat2.shape[1:]:
        return linear(mat1, mat2.t(), input, site)
    return _sum(site, input, matmul(mat1, mat2, site, wide=True), beta, alpha)


def addmv(
    site: Site, input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor:
    """``beta * input + alpha * (mat_MK @ vec_K)``."""
    return _sum(site, input, matmul(mat, vec, site, wide=True), beta, alpha)


def baddbmm(
    site: Site, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor:
    """``beta * input + alpha * (batch1_BMK @ batch2_BKN)``."""
    return _sum(site, input, matmul(batch1, batch2, site, wide=True), beta, alpha)


def addbmm(
    site: Site, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
) -> Tensor:
    """``beta * input + alpha * sum_B(batch1_BMK @ batch2_BKN)``: one product along B and K together."""
    a_MBK, b_BKN = batch1.transpose(0, 1).flatten(1), batch2.flatten(0, 1)
    return _sum(site, input, matmul(a_MBK, b_BKN, site, wide=True), beta, alpha)


def _sum(site: Site, input: Tensor, product: Tensor, beta: _Number, alpha: _Number) -> Tensor:
    """Added in fp32, rounded once; as in torch, ``beta = 0`` ignores even a NaN."""
    y = product.float() * alpha
    if beta != 0:
        y = y + input.to(site.state.compute_dtype).float() * beta
    return y.to(site.state.compute_dtype)
