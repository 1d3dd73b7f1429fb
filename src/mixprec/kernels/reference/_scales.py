"""Scales of a matrix whose reduction runs along rows: tensor, row, MX and two-level."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec.specs import Cast, Granularity

from .._contract import E4M3_MAX, LARGEST_QUANT_SCALE, CastParameters, cast_parameters
from ._grid import decode, divide, encode, exponent_of, power_of_two, round_to_grid
from ._hadamard import pad_rows

_E8M0_BIAS = 127
_E8M0_NAN = 255


@dataclass(frozen=True, kw_only=True)
class Scales:
    """What the elements are multiplied by, before and after they are rounded.

    Attributes:
        quant_scale: fp32, broadcasts to the matrix: ``q = round(x * quant_scale)``.
        scale: fp32, broadcasts to the matrix: ``carrier = q * scale``.
        outer: fp32, 0-d or ``[R, 1]``: ``value = carrier * outer``.
        codes: uint8 codes of the block scales ``[row tiles, column tiles]``, or empty ``[0]``.
    """

    quant_scale: Tensor
    scale: Tensor
    outer: Tensor
    codes: Tensor


def scales_of(x: Tensor, parameters: CastParameters) -> Scales:
    """The scales of an fp32 matrix ``[R, C]`` under a cast; the reduction runs along the rows.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> scales_of(torch.tensor([[7.0, 1.0]]), cast_parameters(parse_cast("mxfp4"))).scale.tolist()
        [[1.0, 1.0]]
    """
    compute = {"none": _no_scale, "tensor": _tensor_scale, "row": _row_scale, "mx": _mx_scales}
    return compute.get(parameters.scaling, _two_level_scales)(x, parameters)


def block_scales(codes: Tensor, parameters: CastParameters, rows: int, columns: int) -> Tensor:
    """fp32 block scales ``[rows, columns]`` from their uint8 codes ``[row tiles, column tiles]``.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> codes = torch.tensor([[128]], dtype=torch.uint8)
        >>> block_scales(codes, cast_parameters(parse_cast("mxfp4")), 1, 2).tolist()
        [[2.0, 2.0]]
    """
    if parameters.scaling == "mx":
        exponent = codes.long() - _E8M0_BIAS
        scale = torch.where(codes == _E8M0_NAN, math.nan, power_of_two(exponent)).float()
    else:
        scale = decode(codes.long(), _e4m3())
    return _spread(scale, parameters, rows, columns)


def _no_scale(x: Tensor, parameters: CastParameters) -> Scales:
    one = x.new_ones(())
    return Scales(quant_scale=one, scale=one, outer=one, codes=_no_codes(x))


def _tensor_scale(x: Tensor, parameters: CastParameters) -> Scales:
    quant_scale = _exact_quant_scale(largest_magnitude(x), parameters.max_value)
    return Scales(quant_scale=quant_scale, scale=x.new_ones(()), outer=divide(1.0, quant_scale), codes=_no_codes(x))


def _row_scale(x: Tensor, parameters: CastParameters) -> Scales:
    amax = x.abs().amax(dim=1, keepdim=True) if x.shape[1] else x.new_zeros(x.shape[0], 1)
    quant_scale = _exact_quant_scale(amax, parameters.max_value)
    return Scales(quant_scale=quant_scale, scale=x.new_ones(()), outer=divide(1.0, quant_scale), codes=_no_codes(x))


def _mx_scales(x: Tensor, parameters: CastParameters) -> Scales:
    """One power of two per tile (OCP Microscaling Formats v1.0, section 6.3, and its variants)."""
    amax = _tile_amax(x, parameters)
    exponent = _mx_exponent(amax.double(), parameters)
    finite = amax.isfinite()
    scale = torch.where(finite, power_of_two(exponent), math.nan).float()
    quant_scale = torch.where(finite, power_of_two(-exponent), math.nan).float()
    return Scales(
        quant_scale=_spread(quant_scale, parameters, *x.shape),
        scale=_spread(scale, parameters, *x.shape),
        outer=x.new_ones(()),
        codes=torch.where(finite, exponent + _E8M0_BIAS, _E8M0_NAN).to(torch.uint8),
    )


def _mx_exponent(amax: Tensor, parameters: CastParameters) -> Tensor:
    """Exponent of the shared scale from fp64 amax; zero and non-finite values give some value in range."""
    exponent = exponent_of(amax)
    mantissa = (amax.view(torch.int64) >> 29) & 0x7FFFFF  # fp32's 23 bits
    if parameters.rule == "ceil":
        exponent = exponent + (mantissa != 0)
    elif parameters.rule == "rceil":  # the exact ceil(log2(amax / max))
        significand = parameters.max_value * 2.0**-parameters.max_exponent
        exponent = exponent + (mantissa > round((significand - 1.0) * 2**23))
    elif parameters.rule == "even":  # amax rounded half up at the element's precision
        half = 1 << (22 - parameters.mantissa_bits)
        exponent = exponent + ((mantissa + half) >> 23)
    return (exponent - parameters.max_exponent).clamp(-127, 127)


def _two_level_scales(x: Tensor, parameters: CastParameters) -> Scales:
    """E4M3 block scales under an fp32 tensor scale (arXiv 2509.25149)."""
    target = parameters.target
    tensor_quant_scale = _exact_quant_scale(largest_magnitude(x), target * E4M3_MAX)
    amax = _tile_amax(x, parameters) * tensor_quant_scale
    scale = round_to_grid((amax.double() / torch.full_like(amax, target, dtype=torch.float64)).float(), _e4m3(), None)
    scale = torch.where(scale == 0.0, 1.0, scale)
    quant_scale = (tensor_quant_scale / scale).clamp(max=LARGEST_QUANT_SCALE)
    return Scales(
        quant_scale=_spread(quant_scale, parameters, *x.shape),
        scale=_spread(scale, parameters, *x.shape),
        outer=divide(1.0, tensor_quant_scale),
        codes=encode(scale, _e4m3()).to(torch.uint8),
    )


def largest_magnitude(x: Tensor) -> Tensor:
    """Amax of the whole tensor, 0-d fp32; NaN if there is a NaN, 0 if empty.

    Example:
        >>> largest_magnitude(torch.tensor([1.0, -3.0])).item()
        3.0
    """
    return x.abs().amax() if x.numel() else x.new_zeros(())


def _exact_quant_scale(amax: Tensor, limit: float) -> Tensor:
    """``limit / amax``, rounded once, at most 2**127; 1 for amax 0; NaN for a non-finite amax."""
    quant_scale = divide(limit, amax.double()).float().clamp(max=LARGEST_QUANT_SCALE)
    quant_scale = torch.where(amax == 0.0, 1.0, quant_scale)
    return torch.where(amax.isfinite(), quant_scale, math.nan)


def _tile_amax(x: Tensor, parameters: CastParameters) -> Tensor:
    """Amax of each ``outer`` x ``reduction`` tile: fp32 ``[row tiles, column tiles]``."""
    padded = pad_rows(x.abs(), parameters.reduction)
    padded = pad_rows(padded.T, parameters.outer).T
    rows, columns = padded.shape[0] // parameters.outer, padded.shape[1] // parameters.reduction
    tiles = padded.reshape(rows, parameters.outer, columns, parameters.reduction)
    return tiles.amax(dim=(1, 3))


def _spread(tiles: Tensor, parameters: CastParameters, rows: int, columns: int) -> Tensor:
    """A value per tile -> a value per element."""
    spread = tiles.repeat_interleave(parameters.outer, 0).repeat_interleave(parameters.reduction, 1)
    return spread[:rows, :columns]


def _e4m3() -> CastParameters:
    return cast_parameters(Cast(element="e4m3", granularity=Granularity("none")))


def _no_codes(x: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=x.device)
