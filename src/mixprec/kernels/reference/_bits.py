"""Exponents, powers of two and quotients that are exact, or rounded once."""

from __future__ import annotations

import torch
from torch import Tensor

_DOUBLE_BIAS = 1023
_DOUBLE_MANTISSA_BITS = 52


def exponent_of(x: Tensor) -> Tensor:
    """``floor(log2 |x|)`` of fp64 values, as int64, from the bits; -1023 for zero.

    An fp32 value is never subnormal in fp64, so the result is exact for every fp32 value.

    Example:
        >>> exponent_of(torch.tensor([1.0, 0.75, 2.0**-149], dtype=torch.float64)).tolist()
        [0, -1, -149]
    """
    return ((x.view(torch.int64) >> _DOUBLE_MANTISSA_BITS) & 0x7FF) - _DOUBLE_BIAS


def power_of_two(exponent: Tensor) -> Tensor:
    """``2.0 ** exponent`` in fp64, for int64 exponents in [-1022, 1023], from the bits.

    Example:
        >>> power_of_two(torch.tensor([-1, 0, 10])).tolist()
        [0.5, 1.0, 1024.0]
    """
    return ((exponent + _DOUBLE_BIAS) << _DOUBLE_MANTISSA_BITS).view(torch.float64)


def number_over(numerator: float, denominator: Tensor) -> Tensor:
    """A number divided by a tensor, rounded once in the tensor's dtype.

    ``number / tensor`` of torch multiplies by a rounded reciprocal.

    Example:
        >>> number_over(5.0, torch.tensor([49.0])).item() == torch.tensor(5.0 / 49.0).item()
        True
    """
    return torch.full_like(denominator, numerator) / denominator


def over_number(numerator: Tensor, denominator: float) -> Tensor:
    """A tensor divided by a number, rounded once in the tensor's dtype.

    Example:
        >>> over_number(torch.tensor([5.0]), 49.0).item() == torch.tensor(5.0 / 49.0).item()
        True
    """
    return numerator / torch.full_like(numerator, denominator)
