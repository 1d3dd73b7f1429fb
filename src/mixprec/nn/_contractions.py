"""``tensordot``, ``inner``, chains of products and ``bilinear``, through the products that they stand for."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ._einsum import einsum
from ._product_sites import is_castable, product
from ._site import ConversionState
from ._telling import left_to_torch


def tensordot(state: ConversionState, a: Tensor, b: Tensor, dims: Any = 2) -> Tensor | None:
    """``torch.tensordot``: the last ``dims`` of ``a`` with the first of ``b``, or the dimensions that are listed."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = ([d % t.dim() for d in _listed(group)] for group, t in zip(dims, (a, b), strict=True))
    names = iter(string.ascii_letters)
    a_labels = [next(names) for _ in range(a.dim())]
    b_labels = [next(names) for _ in range(b.dim())]
    for i, j in zip(left, right, strict=True):
        b_labels[j] = a_labels[i]
    out = [c for c in a_labels if c not in b_labels] + [c for c in b_labels if c not in a_labels]
    return einsum(state, (f"{''.join(a_labels)},{''.join(b_labels)}->{''.join(out)}", a, b))


def _listed(dims: Any) -> Sequence[int]:
    return dims if isinstance(dims, (list, tuple)) else [dims]


def inner(state: ConversionState, input: Tensor, other: Tensor) -> Tensor | None:
    """``torch.inner``: the last dimensions contracted."""
    if min(input.dim(), other.dim()) == 0 or max(input.dim(), other.dim()) == 1:
        return None
    return tensordot(state, input, other, ([-1], [-1]))


def chain(state: ConversionState, tensors: Sequence[Tensor]) -> Tensor | None:
    """``torch.linalg.multi_dot`` and ``chain_matmul``: a chain of matrices, in the order of least work."""
    if len(tensors) < 2 or not is_castable(*tensors) or not (state.is_16bit or state.functions):
        return None
    splits = _split_points(*[_sides(t, i) for i, t in enumerate(tensors)])

    def between(first: int, last: int) -> Tensor:
        if first == last:
            return tensors[first]
        middle = splits[first][last]
        a, b = between(first, middle), between(middle + 1, last)
        y = product(state, a, b)
        return left_to_torch(state, torch.matmul, (a, b), {}) if y is None else y

    return between(0, len(tensors) - 1)


def _sides(t: Tensor, index: int) -> tuple[int, int]:
    """Rows and columns; a vector that begins the chain is a row, one that ends it a column."""
    if t.dim() == 1:
        return (1, t.shape[0]) if index == 0 else (t.shape[0], 1)
    return t.shape[0], t.shape[1]


def _split_points(*sides: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    """Where to split the part of a chain from the first to the last matrix, by both; 0 where there is nothing to split.

    Planned while compiling, not traced.
    """
    splits, size = _splits(sides), len(sides)
    return tuple(tuple(splits.get((first, last), 0) for last in range(size)) for first in range(size))


# What torch.compiler.assume_constant_result sets; calling that would import the whole compiler here.
_split_points._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@cache
def _splits(sides: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], int]:
    """Where to split each part of a chain (Cormen et al., Introduction to Algorithms, 15.2)."""
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(len(sides))}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, len(sides)):
        for first in range(len(sides) - length):
            last = first + length
            costs = {
                middle: cost[first, middle]
                + cost[middle + 1, last]
                + sides[first][0] * sides[middle][1] * sides[last][1]
                for middle in range(first, last)
            }
            splits[first, last] = min(costs, key=lambda middle: costs[middle])
            cost[first, last] = costs[splits[first, last]]
    return splits
