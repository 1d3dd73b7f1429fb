"""``torch.nn.functional.grouped_mm``: a matrix for each group of rows, as the experts of a mixture have."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ._linear import linear
from ._matmul import matmul
from ._product_sites import is_castable, site_of
from ._site import ConversionState, Site
from ._weights import Side, is_weight


def grouped_mm(
    state: ConversionState,
    mat_a: Tensor,
    mat_b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor | None:
    """``grouped_mm`` in the casts that a rule gives it, else in the compute dtype: one product for each group.

    Args:
        state: of the conversion.
        mat_a: [T, K] in groups of rows, [G, M, K], or [M, T] in groups of columns.
        mat_b: [G, K, N], [T, N] in groups of rows, or [K, T] in groups of columns.
        offs: where each group ends.
        bias: not taken, as in torch.
        out_dtype: not taken here; a call that has one is torch's.

    Returns:
        [T, N], [G, M, N], or [M, T]; ``None`` where it is torch's own.
    """
    if bias is not None or out_dtype is not None or not is_castable(mat_a, mat_b):
        return None
    side: Side = "left" if is_weight(mat_a) and not is_weight(mat_b) else "right"
    site = site_of(state, mat_a, mat_b, side) if max(mat_a.dim(), mat_b.dim()) > 2 else state.casts_of("matmul")
    if site is None and not state.is_16bit:
        return None
    if offs is not None and torch.compiler.is_compiling():
        raise RuntimeError(
            f"{state.where() or 'the model'}: grouped_mm in casts multiplies each group by itself, whose lengths a "
            "compiler does not know: run these experts outside of torch.compile, or one matrix for each token (in "
            "transformers: "
            'experts_implementation="batched_mm")'
        )
    site = site or state.functional
    if offs is None:
        return matmul(mat_a, mat_b, site, has_weight=True)
    ends = [0, *(int(end) for end in offs.tolist())]
    spans = list(itertools.pairwise(ends))
    if mat_b.dim() == 3:
        return _rows(mat_a, mat_b.unbind(), spans, site)
    if mat_a.dim() == 3:
        return _rows(mat_b.t(), [w.t() for w in mat_a.unbind()], spans, site).t()
    return torch.stack([matmul(mat_a[:, i:j], mat_b[i:j], site) for i, j in spans])


def _rows(
    x_TK: Tensor, weights_KN: list[Tensor] | tuple[Tensor, ...], spans: list[tuple[int, int]], site: Site
) -> Tensor:
    """Each group of rows times its own matrix; rows behind the last group are zeros."""
    parts = [linear(x_TK[i:j], w.t(), None, site) for (i, j), w in zip(spans, weights_KN, strict=True)]
    behind = x_TK.shape[0] - spans[-1][1]
    if behind > 0:
        parts.append(parts[0].new_zeros(behind, parts[0].shape[1]))
    return torch.cat(parts)
