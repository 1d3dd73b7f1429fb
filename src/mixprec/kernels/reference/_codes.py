"""Codes of a grid's numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._parameters import ElementParameters
from ._bits import power_of_two
from ._grid import unit_exponent
from ._table import decode_in_table, encode_in_table


def encode(values: Tensor, grid: ElementParameters) -> Tensor:
    """Codes (int64) of fp32 values that lie on the grid; NaN is coded as 0 is where the format has no NaN.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> encode(torch.tensor([0.5, -6.0]), cast_parameters(parse_cast("e2m1")).grid).tolist()
        [1, 15]
    """
    if grid.table:
        return encode_in_table(values, grid)
    nan = values.isnan()
    exact = torch.where(nan, 0.0, values).double()
    if grid.integer:
        return (exact * 2.0**grid.mantissa_bits).long() & ((1 << grid.bits) - 1)
    magnitude = exact.abs()
    infinite = magnitude == math.inf
    magnitude = torch.where(infinite, 0.0, magnitude)
    unit = unit_exponent(magnitude, grid)
    position = (magnitude * power_of_two(-unit)).long()
    # The integer position holds the implicit leading bit of a normal value, which adds 1 to the field.
    field = unit + grid.mantissa_bits - grid.min_exponent
    body = (field << grid.mantissa_bits) + position
    body = torch.where(infinite, grid.infinity_code, body)
    code = body | (exact.signbit().long() << (grid.bits - 1)) if grid.sign_bits else body
    return torch.where(nan, max(grid.nan_code, 0), code)


def decode(codes: Tensor, grid: ElementParameters) -> Tensor:
    """fp32 values of int64 codes.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> decode(torch.tensor([1, 15]), cast_parameters(parse_cast("e2m1")).grid).tolist()
        [0.5, -6.0]
    """
    if grid.table:
        return decode_in_table(codes, grid)
    mantissa_bits = grid.mantissa_bits
    if grid.integer:
        signed = codes - ((codes & (1 << (grid.bits - 1))) << 1)
        return (signed.double() * 2.0**-mantissa_bits).float()
    body_bits = grid.bits - grid.sign_bits
    body = codes & ((1 << body_bits) - 1)
    field, mantissa = body >> mantissa_bits, body & ((1 << mantissa_bits) - 1)
    normal = field > 0
    position = torch.where(normal, mantissa + (1 << mantissa_bits), mantissa)
    unit = torch.where(normal, field - 1, 0) + grid.min_exponent - mantissa_bits
    magnitude = position.double() * power_of_two(unit)
    # What the top exponent would hold beyond the largest value is not a number of the format.
    special = torch.where(body == grid.infinity_code, math.inf, math.nan)
    magnitude = torch.where(magnitude > grid.max_value, special, magnitude)
    magnitude = torch.where(codes == grid.nan_code, math.nan, magnitude)  # FNUZ: the code of -0
    return torch.where(codes >> body_bits == 1, -magnitude, magnitude).float()
