"""Scales from largest magnitudes: powers of two, fp32, and short floats under a tensor scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._parameters import LARGEST_QUANT_SCALE, QUEST_REACH, CastParameters, ElementParameters
from ._bits import exponent_of, number_over, over_number, power_of_two
from ._codes import decode, encode
from ._grid import round_to_grid, unit_exponent
from ._sums import sum_by_halving
from ._tiles import tiles_of

_E8M0_BIAS = 127
_E8M0_NAN = 255


@dataclass(frozen=True, kw_only=True)
class Scales:
    """What elements are multiplied by, before and after they are rounded. All fp32.

    Each is 0-d or has one number per row (``[R, 1]`` or ``[1, C]``) or tile.

    Attributes:
        quant_scale: ``q = round(x * quant_scale)``.
        scale: ``carrier = q * scale``.
        outer: ``value = carrier * outer``.
    """

    quant_scale: Tensor
    scale: Tensor
    outer: Tensor


def largest_magnitude(x: Tensor) -> Tensor:
    """Amax of the whole tensor, 0-d fp32; NaN if there is a NaN, 0 if empty.

    Example:
        >>> largest_magnitude(torch.tensor([1.0, -3.0])).item()
        3.0
    """
    return x.abs().amax() if x.numel() else x.new_zeros(())


def shared_magnitude(x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    """Amax of whatever shares a scale in an fp32 matrix: 0-d, one per row, or one per tile (under quest: its reach).

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> shared_magnitude(torch.tensor([[7.0, 1.0]]), cast_parameters(parse_cast("e4m3[row]")), 1).tolist()
        [[7.0]]
    """
    if parameters.scaling == "row":
        shape = (x.shape[0], 1) if axis == 1 else (1, x.shape[1])
        return x.abs().amax(dim=axis, keepdim=True) if x.shape[axis] else x.new_zeros(shape)
    if parameters.rule == "quest":
        return _reach(x, parameters.matrix_tile(axis))
    if parameters.scaling == "block":
        return tiles_of(x.abs(), parameters.matrix_tile(axis)).amax(dim=2)
    return largest_magnitude(x)


def _reach(x: Tensor, tile: tuple[int, int]) -> Tensor:
    """How far the scale of each tile is to reach, over the largest element: fp64, from its standard deviation."""
    tiles = tiles_of(x.double(), tile)
    count = tiles_of(torch.ones_like(x, dtype=torch.float64), tile).sum(2)  # whole numbers: exact in any order
    mean = sum_by_halving(tiles) / count
    variance = sum_by_halving(tiles * tiles) / count - mean * mean
    return torch.where(variance < 0.0, 0.0, variance).sqrt() * QUEST_REACH


def scales_of(amax: Tensor, parameters: CastParameters, target: float, above: Tensor) -> Scales:
    """The scales for given magnitudes.

    Args:
        amax: from `shared_magnitude`.
        parameters: of the cast.
        target: the element's magnitude that an amax is scaled to.
        above: the tensor's quant_scale, 0-d, which float block scales stand under; one if there is none.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> mxfp4 = cast_parameters(parse_cast("mxfp4"))
        >>> scales_of(torch.tensor([[7.0]]), mxfp4, mxfp4.target, torch.ones(())).scale.tolist()
        [[1.0]]
    """
    if parameters.scale == "power":
        return _power_scales(amax, parameters)
    if parameters.scale == "float":
        return _float_scales(amax, parameters, target, above)
    one = amax.new_ones(())
    quant_scale = one if parameters.scale == "none" else fp32_quant_scale(amax, target)
    return Scales(quant_scale=quant_scale, scale=one, outer=number_over(1.0, quant_scale))


def fp32_quant_scale(amax: Tensor, target: float) -> Tensor:
    """``target / amax``, rounded once, at most 2**127; 1 for amax 0; NaN for a non-finite amax.

    Example:
        >>> fp32_quant_scale(torch.tensor([2.0, 0.0, float("inf")]), 448.0).tolist()
        [224.0, 1.0, nan]
    """
    quant_scale = number_over(target, amax.double()).float().clamp(max=LARGEST_QUANT_SCALE)
    quant_scale = torch.where(amax == 0.0, 1.0, quant_scale)
    return torch.where(amax.isfinite(), quant_scale, math.nan)


def _power_scales(amax: Tensor, parameters: CastParameters) -> Scales:
    """Powers of two (OCP Microscaling Formats v1.0, section 6.3, and its variants)."""
    exponent = _power_exponent(amax.double(), parameters)
    finite, ratio = amax.isfinite(), parameters.prescale
    scale = torch.where(finite, power_of_two(exponent).float(), math.nan)
    quant_scale = torch.where(finite, power_of_two(-exponent).float() * ratio, math.nan)
    one = scale.new_ones(())
    if parameters.scaling == "block":
        return Scales(quant_scale=quant_scale, scale=scale, outer=over_number(one, ratio))
    return Scales(quant_scale=quant_scale, scale=one, outer=over_number(scale, ratio))


def _power_exponent(amax: Tensor, parameters: CastParameters) -> Tensor:
    """Exponent of the scale from fp64 amax; non-finite values give some value in range."""
    grid = parameters.grid
    if parameters.rule == "quest":
        return exponent_of(amax).clamp(-127, 127)
    exponent = exponent_of(amax)  # -1023 for zero, which the clamp takes to -127
    mantissa = (amax.view(torch.int64) >> 29) & 0x7FFFFF  # fp32's 23 bits
    if parameters.rule == "ceil":
        exponent = exponent + (mantissa != 0)
    elif parameters.rule == "rceil":  # the exact ceil(log2(amax / max))
        significand = grid.max_value * 2.0**-grid.max_exponent
        exponent = exponent + (mantissa > round((significand - 1.0) * 2**23))
    elif parameters.rule == "even":  # amax rounded half up at the element's precision
        half = (1 << (23 - grid.mantissa_bits)) >> 1
        exponent = exponent + ((mantissa + half) >> 23)
    return (exponent - grid.max_exponent).clamp(-127, 127)


def _float_scales(amax: Tensor, parameters: CastParameters, target: float, above: Tensor) -> Scales:
    """Block scales of a short float format; under a tensor scale as in arXiv:2509.25149."""
    grid = parameters.scale_grid
    if grid is None:
        raise ValueError(f"a float scale over {parameters.grid.element} lacks its format")
    shared = amax * above
    scale = round_to_grid(over_number(shared.double(), target).float(), grid, "nearest-even")
    scale = torch.where(scale == 0.0, 1.0, scale)
    scale = torch.maximum(scale, _least_scale(above, grid))
    scale = torch.where(shared.isfinite(), scale, math.nan)
    quant_scale = (above / scale).clamp(max=LARGEST_QUANT_SCALE)
    return Scales(quant_scale=quant_scale, scale=scale, outer=number_over(1.0, above))


def _least_scale(above: Tensor, grid: ElementParameters) -> Tensor:
    """The smallest scale of a format by which ``above`` is divided to at most ``LARGEST_QUANT_SCALE``.

    With a smaller one elements would be multiplied by less than they are divided by afterwards.
    """
    least = above.double() / LARGEST_QUANT_SCALE
    unit = power_of_two(unit_exponent(least, grid))
    return ((least / unit).ceil() * unit).clamp(max=grid.max_value).float()


def encode_scales(scale: Tensor, parameters: CastParameters) -> Tensor:
    """uint8 codes of block scales, one per tile.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> encode_scales(torch.tensor([[2.0, float("nan")]]), cast_parameters(parse_cast("mxfp4"))).tolist()
        [[128, 255]]
    """
    if parameters.scale_grid is not None:
        return encode(scale, parameters.scale_grid).to(torch.uint8)
    exponent = exponent_of(scale.double())
    return torch.where(scale.isnan(), _E8M0_NAN, exponent + _E8M0_BIAS).to(torch.uint8)


def decode_scales(codes: Tensor, parameters: CastParameters) -> Tensor:
    """fp32 block scales from their uint8 codes.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> decode_scales(torch.tensor([[128, 255]], dtype=torch.uint8), cast_parameters(parse_cast("mxfp4"))).tolist()
        [[2.0, nan]]
    """
    if parameters.scale_grid is not None:
        return decode(codes.long(), parameters.scale_grid)
    return torch.where(codes == _E8M0_NAN, math.nan, power_of_two(codes.long() - _E8M0_BIAS).float())
