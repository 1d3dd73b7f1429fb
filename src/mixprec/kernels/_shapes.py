"""Shapes of results, from shapes alone: what the compiler sees of an operation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._parameters import CastParameters


def rounded_shape(shape: Sequence[int], transform: int, axis: int) -> tuple[int, int]:
    """Shape of the matrix that is rounded: padded along ``axis`` to a multiple of the transform.

    Example:
        >>> rounded_shape((5, 40), 16, 1), rounded_shape((5, 40), 16, 0), rounded_shape((5, 40), 0, 0)
        ((5, 48), (16, 40), (5, 40))
    """
    size = transform or 1
    rows, columns = shape
    return (_ceil_div(rows, size) * size, columns) if axis == 0 else (rows, _ceil_div(columns, size) * size)


def tile_counts(shape: tuple[int, int], parameters: CastParameters, axis: int) -> tuple[int, int]:
    """How many tiles a matrix of that shape has, along its rows and along its columns."""
    rows, columns = parameters.matrix_tile(axis)
    return _ceil_div(shape[0], rows), _ceil_div(shape[1], columns)


def empty_carrier(x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    """Memory for the carrier of ``scaled``."""
    return x.new_empty(rounded_shape(x.shape, parameters.transform, axis), dtype=torch.float32)


def empty_outer(x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    """Memory for the outer scale of ``scaled``."""
    shape: tuple[int, ...] = ()
    if parameters.scaling == "row":
        shape = (x.shape[0], 1) if axis == 1 else (1, x.shape[1])
    elif parameters.scaling == "block" and parameters.scale == "fp32":
        shape = tile_counts(rounded_shape(x.shape, parameters.transform, axis), parameters, axis)
    return x.new_empty(shape, dtype=torch.float32)


def empty_codes(x: Tensor, parameters: CastParameters, axis: int) -> tuple[Tensor, Tensor]:
    """Memory for the codes and the scales' codes of ``quantize``."""
    rows, columns = rounded_shape(x.shape, parameters.transform, axis)
    codes = x.new_empty((rows, _ceil_div(columns * parameters.grid.bits, 8)), dtype=torch.uint8)
    coded = parameters.scaling == "block" and parameters.scale != "fp32"
    scales = tile_counts((rows, columns), parameters, axis) if coded else (0,)
    return codes, x.new_empty(scales, dtype=torch.uint8)


def _ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b
