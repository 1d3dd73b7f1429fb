"""The fp32 operations of the 16-bit recipes: one explicit list, the same on every device.

Their 16-bit arguments are widened and their result stays fp32. Why each group is here:

- exponentials, logarithms, powers and roots leave 16-bit range or resolution at once;
- ``sigmoid`` and ``softplus`` saturate: ``sigmoid(10)`` is 1 in bf16, and the loss behind it has gradient zero;
- softmaxes, norms, sums and means accumulate;
- losses are means of logarithms;
- decompositions have no 16-bit kernels, complex numbers no 16-bit dtype that trains, numpy no bf16.

torch's own lists differ between CPU and CUDA (https://docs.pytorch.org/docs/stable/amp.html, "Op-specific
behavior"); this one holds CUDA's and adds ``sigmoid``, ``mean``, ``square`` and the last group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

_NAMES = """
    exp expm1 log log10 log1p log2 pow square float_power reciprocal rsqrt acos asin cosh sinh tan erfinv sigmoid
    softmax log_softmax logsumexp cumsum cumprod sum mean prod norm std var dist cdist renorm trapezoid
"""
_DECOMPOSITIONS = """
    det slogdet logdet inv inv_ex inverse solve solve_ex lstsq cholesky cholesky_ex cholesky_solve cholesky_inverse qr
    lu lu_factor lu_solve svd svdvals eig eigvals eigh eigvalsh pinv pinverse matrix_rank matrix_power matrix_exp cond
    tensorinv tensorsolve householder_product solve_triangular triangular_solve
"""
_NUMBERS = "complex polar view_as_complex numpy __array__"
_FUNCTIONAL = """
    softmax log_softmax softmin gumbel_softmax sigmoid logsigmoid softplus normalize cosine_similarity
    pairwise_distance binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss mse_loss l1_loss
    smooth_l1_loss huber_loss kl_div cosine_embedding_loss margin_ranking_loss hinge_embedding_loss soft_margin_loss
    triplet_margin_loss triplet_margin_with_distance_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss poisson_nll_loss gaussian_nll_loss ctc_loss
"""


def decompositions() -> frozenset[Callable[..., Any]]:
    """Every spelling of the decompositions and powers of matrices, some of which multiply matrices."""
    owners = (torch, torch.Tensor, torch.linalg)
    return frozenset(getattr(o, name) for o in owners for name in _DECOMPOSITIONS.split() if hasattr(o, name))


def fp32_functions() -> frozenset[Callable[..., Any]]:
    """Every spelling (``torch.f``, ``Tensor.f``, ``F.f``, operators) of the fp32 operations."""
    found: set[Callable[..., Any]] = {torch.Tensor.__pow__, torch.Tensor.__rpow__, torch.linalg.norm, torch.ctc_loss}
    found |= {torch.linalg.vector_norm, torch.linalg.matrix_norm, torch.special.expit, torch.special.log_softmax}
    groups = [(names, owner) for names in (_NAMES, _DECOMPOSITIONS, _NUMBERS) for owner in (torch, torch.Tensor)]
    for names, owner in (*groups, (_DECOMPOSITIONS, torch.linalg), (_FUNCTIONAL, F)):
        found |= {getattr(owner, name) for name in names.split() if hasattr(owner, name)}
    return frozenset(found)
