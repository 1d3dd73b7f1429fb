"""How many terms the loss averages over, and which rows of a product belong to one of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

#: Sums of a cross-entropy's gradient over the classes are zero but for rounding.
_ZERO_SUM = 1e-3


def terms_of(gradient: Tensor) -> int:
    """Rows of an output that the loss depends on: those of its gradient that are not zero.

    A row runs along the classes, or along the last axis where there are none.
    """
    if gradient.dim() < 2:
        return int(torch.count_nonzero(gradient))
    axis = class_axis(gradient)
    return int(torch.count_nonzero(gradient.abs().amax(-1 if axis is None else axis)))


def class_axis(gradient: Tensor) -> int | None:
    """The axis along which a gradient sums to nothing, as a cross-entropy's does along the classes."""
    norm = gradient.abs().sum()
    axes = [axis for axis in range(1, gradient.dim()) if gradient.shape[axis] > 1]
    share = {axis: float(gradient.sum(axis).abs().sum() / norm) if norm > 0 else 1.0 for axis in axes}
    best = min(share, key=lambda axis: share[axis], default=None)
    return best if best is not None and share[best] < _ZERO_SUM else None


def unit_axes(shape: Sequence[int], terms: int) -> tuple[int, ...] | None:
    """The axes of ``shape`` whose sizes multiply to the number of terms: each of their places is one term.

    Leading axes are tried first. ``None``: no axes do, and each row counts for itself.
    """
    axes = range(len(shape))
    for count in range(len(shape) + 1):
        if _size(shape, range(count)) == terms:
            return tuple(range(count))
    for count in range(1, len(shape)):
        for chosen in itertools.combinations(axes, count):
            if _size(shape, chosen) == terms:
                return chosen
    return None


def _size(shape: Sequence[int], axes: Sequence[int]) -> int:
    size = 1
    for axis in axes:
        size *= shape[axis]
    return size


def by_term(projections: Tensor, terms: int) -> Tensor:
    """Projections of rows, summed over the rows that belong to one term: [terms], or [rows] where none is known to."""
    kept = unit_axes(projections.shape, terms)
    if kept is None:
        return projections.flatten()
    rest = [axis for axis in range(projections.dim()) if axis not in kept]
    return (projections.sum(rest) if rest else projections).flatten()
