"""Rounding to an element grid, and the grid's codes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._contract import CastParameters

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


def divide(numerator: float, denominator: Tensor) -> Tensor:
    """A number divided by a tensor, rounded once in the tensor's dtype.

    ``number / tensor`` of torch multiplies by a rounded reciprocal.

    Example:
        >>> divide(5.0, torch.tensor([49.0])).item() == torch.tensor(5.0 / 49.0).item()
        True
    """
    return torch.full_like(denominator, numerator) / denominator


def round_to_grid(x: Tensor, parameters: CastParameters, words: Tensor | None) -> Tensor:
    """Every element of an fp32 tensor rounded to the element grid.

    Exact: a value is written as ``position * 2**u`` where neighbours of the grid are one apart; the
    position is split into an integer and a fraction, and rounding looks at the fraction.

    Args:
        x: fp32, any shape.
        parameters: the element grid, the rounding and what overflow gives.
        words: 32-bit random words in int64, shape of x; needed for stochastic rounding only.

    Returns:
        fp32, shape of x. NaN stays NaN.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels._contract import cast_parameters
        >>> e2m1 = cast_parameters(parse_cast("e2m1"))
        >>> round_to_grid(torch.tensor([0.3, -2.5, 5.0, 100.0]), e2m1, None).tolist()
        [0.5, -2.0, 4.0, 6.0]
    """
    magnitude = x.double().abs()
    finite = magnitude < math.inf  # false for NaN too
    magnitude = torch.where(finite, magnitude, 0.0)
    unit_exponent = _unit_exponent(magnitude, parameters)
    position = magnitude * power_of_two(-unit_exponent)  # below 2**(mantissa_bits + 1)
    lower = position.long()
    upward = _round_up(lower, position - lower.double(), parameters, words)
    rounded = (lower + upward).double() * power_of_two(unit_exponent)
    rounded = torch.where(rounded > parameters.max_value, parameters.overflow_value, rounded)
    rounded = torch.where(finite, rounded, parameters.infinity_value)
    rounded = torch.where(x.isnan(), math.nan, rounded)
    result = rounded.copysign(x).float()
    return result if parameters.signed_zero else result + 0.0  # -0.0 + 0.0 is +0.0


def encode(values: Tensor, parameters: CastParameters) -> Tensor:
    """Codes (int64) of fp32 values that lie on the element grid; NaN is 0 where the format has no NaN.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels._contract import cast_parameters
        >>> encode(torch.tensor([0.5, -6.0]), cast_parameters(parse_cast("e2m1"))).tolist()
        [1, 15]
    """
    nan = values.isnan()
    exact = torch.where(nan, 0.0, values).double()
    if parameters.integer:
        return (exact * 2.0**parameters.mantissa_bits).long() & ((1 << parameters.bits) - 1)
    magnitude = exact.abs()
    infinite = magnitude == math.inf
    magnitude = torch.where(infinite, 0.0, magnitude)
    unit_exponent = _unit_exponent(magnitude, parameters)
    position = (magnitude * power_of_two(-unit_exponent)).long()
    # The integer position holds the implicit leading bit of a normal value, which adds 1 to the field.
    field = unit_exponent + parameters.mantissa_bits - parameters.min_exponent
    body = (field << parameters.mantissa_bits) + position
    body = torch.where(infinite, parameters.infinity_code, body)
    code = body | (exact.signbit().long() << (parameters.bits - 1))
    return torch.where(nan, max(parameters.nan_code, 0), code)


def decode(codes: Tensor, parameters: CastParameters) -> Tensor:
    """fp32 values of int64 codes.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels._contract import cast_parameters
        >>> decode(torch.tensor([1, 15]), cast_parameters(parse_cast("e2m1"))).tolist()
        [0.5, -6.0]
    """
    mantissa_bits = parameters.mantissa_bits
    if parameters.integer:
        signed = codes - ((codes & (1 << (parameters.bits - 1))) << 1)
        return (signed.double() * 2.0**-mantissa_bits).float()
    body = codes & ((1 << (parameters.bits - 1)) - 1)
    field, mantissa = body >> mantissa_bits, body & ((1 << mantissa_bits) - 1)
    normal = field > 0
    position = torch.where(normal, mantissa + (1 << mantissa_bits), mantissa)
    unit_exponent = torch.where(normal, field - 1, 0) + parameters.min_exponent - mantissa_bits
    magnitude = position.double() * power_of_two(unit_exponent)
    # What the top exponent would hold beyond the largest value is not a number of the format.
    special = torch.where(body == parameters.infinity_code, math.inf, math.nan)
    magnitude = torch.where(magnitude > parameters.max_value, special, magnitude)
    magnitude = torch.where(codes == parameters.nan_code, math.nan, magnitude)  # FNUZ: the code of -0
    negative = codes >> (parameters.bits - 1) == 1
    return torch.where(negative, -magnitude, magnitude).float()


def _unit_exponent(magnitude: Tensor, parameters: CastParameters) -> Tensor:
    """Exponent of the spacing of the grid at a magnitude."""
    return exponent_of(magnitude).clamp(min=parameters.min_exponent) - parameters.mantissa_bits


def _round_up(lower: Tensor, fraction: Tensor, parameters: CastParameters, words: Tensor | None) -> Tensor:
    """1 where the neighbour away from zero is taken, else 0 (int64)."""
    if parameters.rounding == "toward-zero":
        return torch.zeros_like(lower)
    if parameters.rounding == "stochastic":
        if words is None:
            raise ValueError(f"stochastic rounding to {parameters.element} needs random words, got none")
        return (words < (fraction * 2.0**32).long()).long()
    tie_to_odd = (fraction == 0.5) & (lower & 1 == 1)
    return ((fraction > 0.5) | tie_to_odd).long()
