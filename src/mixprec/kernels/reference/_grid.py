"""Rounding to a grid of numbers."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .._parameters import ElementParameters
from ._bits import exponent_of, power_of_two
from ._table import round_to_table

Rounding = Literal["nearest-even", "stochastic", "toward-zero"]


def round_to_grid(x: Tensor, grid: ElementParameters, rounding: Rounding, words: Tensor | None = None) -> Tensor:
    """Every element of an fp32 tensor rounded to a grid.

    Exact: a value is written as ``position * 2**u`` where neighbours of the grid are one apart; the
    position is split into an integer and a fraction, and rounding looks at the fraction.

    Args:
        x: fp32, any shape.
        grid: the numbers, and what overflow gives.
        rounding: to which of the neighbours.
        words: 32-bit random words in int64, shape of x; needed for stochastic rounding only.

    Returns:
        fp32, shape of x. NaN stays NaN.

    Raises:
        ValueError: stochastic rounding without words.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> e2m1 = cast_parameters(parse_cast("e2m1")).grid
        >>> round_to_grid(torch.tensor([0.3, -2.5, 5.0, 100.0]), e2m1, "nearest-even").tolist()
        [0.5, -2.0, 4.0, 6.0]
    """
    if rounding == "stochastic" and words is None:
        raise ValueError(f"stochastic rounding to {grid.element} needs random words, got none")
    if grid.table:
        return round_to_table(x, grid.table, rounding, words)
    magnitude = x.double().abs()
    finite = magnitude < math.inf  # false for NaN too
    magnitude = torch.where(finite, magnitude, 0.0)
    unit = unit_exponent(magnitude, grid)
    position = magnitude * power_of_two(-unit)  # below 2**(mantissa_bits + 1)
    lower = position.long()
    upward = _round_up(lower, position - lower.double(), rounding, words)
    rounded = (lower + upward).double() * power_of_two(unit)
    rounded = torch.where(rounded > grid.max_value, grid.overflow_value, rounded)
    rounded = torch.where(finite, rounded, grid.infinity_value)
    rounded = torch.where(x.isnan(), math.nan, rounded)
    result = rounded.copysign(x).float()
    return result if grid.signed_zero else result + 0.0  # -0.0 + 0.0 is +0.0


def unit_exponent(magnitude: Tensor, grid: ElementParameters) -> Tensor:
    """Exponent of the spacing of the grid at an fp64 magnitude.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> e2m1 = cast_parameters(parse_cast("e2m1")).grid
        >>> unit_exponent(torch.tensor([0.1, 1.0, 4.5], dtype=torch.float64), e2m1).tolist()
        [-1, -1, 1]
    """
    return exponent_of(magnitude).clamp(min=grid.min_exponent) - grid.mantissa_bits


def _round_up(lower: Tensor, fraction: Tensor, rounding: Rounding, words: Tensor | None) -> Tensor:
    """1 where the neighbour away from zero is taken, else 0 (int64)."""
    if rounding == "toward-zero":
        return torch.zeros_like(lower)
    if words is not None and rounding == "stochastic":
        return (words < (fraction * 2.0**32).long()).long()
    tie_to_odd = (fraction == 0.5) & (lower & 1 == 1)
    return ((fraction > 0.5) | tie_to_odd).long()
