"""Scales from largest magnitudes on the device: powers of two, fp32, and short floats under a tensor scale."""

import triton
import triton.language as tl

from ._bits import magnitude_bits, power_of_two, split_magnitude
from ._codes import decode, encode
from ._elements import round_to_grid

INFINITE = tl.constexpr(0x7F800000)
LARGEST_QUANT_SCALE = tl.constexpr(2.0**127)
E8M0_BIAS = tl.constexpr(127)
E8M0_NAN = tl.constexpr(255)


@triton.jit
def quotient_of(numerator, denominator):
    """fp32 by fp32, rounded once: fp64 has bits enough for a second rounding to change nothing.

    Not by Triton's ``div_rn``, which has flushed subnormal quotients (version 3.5).
    """
    return (numerator.to(tl.float64) / denominator.to(tl.float64)).to(tl.float32)


@triton.jit
def fp32_quant_scale(amax, target: tl.constexpr):
    """``target / amax`` from the bits of amax, rounded once to fp32, at most 2**127; 1 for 0; NaN if not finite."""
    finite = amax < INFINITE
    number = tl.where(finite & (amax > 0), amax, 0x3F800000).to(tl.float32, bitcast=True)
    wide = number.to(tl.float64)
    quotient = (tl.full(wide.shape, target, tl.float64) / wide).to(tl.float32)
    quotient = tl.where(quotient > LARGEST_QUANT_SCALE, LARGEST_QUANT_SCALE, quotient)
    quotient = tl.where(amax == 0, 1.0, quotient)
    return tl.where(finite, quotient, float("nan"))


@triton.jit
def power_scale(shared, cast: tl.constexpr):
    """``(quant_scale, scale)`` of a power of two; ``shared`` as in `scales_of`."""
    if cast.rule == "quest":
        finite = tl.abs(shared) < float("inf")
        exponent = (((shared.to(tl.int64, bitcast=True) >> 52) & 0x7FF) - 1023).to(tl.int32)
    else:
        finite = shared < INFINITE
        exponent = power_exponent(tl.where(finite, shared, 0), cast)
    exponent = tl.minimum(tl.maximum(exponent, -127), 127)
    quant_scale = power_of_two(-exponent)
    if cast.prescale != 1.0:
        quant_scale = quant_scale * cast.prescale
    quant_scale = tl.where(finite, quant_scale, float("nan"))
    scale = tl.where(finite, power_of_two(exponent), float("nan"))
    return quant_scale, scale


@triton.jit
def power_exponent(amax, cast: tl.constexpr):
    """Exponent (int32) of a power-of-two scale from the bits of a finite amax; far below all others for 0."""
    grid: tl.constexpr = cast.grid
    significand, exponent = split_magnitude(amax)
    mantissa = significand & 0x7FFFFF
    if cast.rule == "ceil":
        exponent += (mantissa != 0).to(tl.int32)
    elif cast.rule == "rceil":  # the exact ceil(log2(amax / max))
        exponent += (mantissa > grid.top).to(tl.int32)
    elif cast.rule == "even":  # amax rounded half up at the element's precision
        exponent += (mantissa + ((1 << (23 - grid.mantissa_bits)) >> 1)) >> 23
    return exponent - grid.max_exponent


@triton.jit
def float_scale(amax, above, target: tl.constexpr, grid: tl.constexpr):
    """``(quant_scale, scale)`` of a short float; ``above``: the tensor's quant_scale (fp32), or one."""
    shared = amax.to(tl.float32, bitcast=True) * above
    wide = shared.to(tl.float64)
    quotient = (wide / tl.full(wide.shape, target, tl.float64)).to(tl.float32)
    scale = round_to_grid(quotient, 0, 0, grid, "nearest-even")
    scale = tl.where(scale == 0.0, 1.0, scale)
    least = least_scale(above, grid)
    scale = tl.where(scale < least, least, scale)
    scale = tl.where(tl.abs(shared) < float("inf"), scale, float("nan"))
    quant_scale = quotient_of(above, scale)
    quant_scale = tl.where(quant_scale > LARGEST_QUANT_SCALE, LARGEST_QUANT_SCALE, quant_scale)
    return quant_scale, scale


@triton.jit
def least_scale(above, grid: tl.constexpr):
    """The smallest scale by which ``above`` (fp32) is divided to at most 2**127; NaN where that is.

    With a smaller one elements would be multiplied by less than they are divided by afterwards.
    """
    _, exponent = split_magnitude(magnitude_bits(above))
    unit = power_of_two(tl.maximum(exponent - 127, grid.min_exponent) - grid.mantissa_bits).to(tl.float64)
    units = above.to(tl.float64) / LARGEST_QUANT_SCALE / unit
    whole = units.to(tl.int64).to(tl.float64)
    least = (tl.where(whole < units, whole + 1.0, whole) * unit).to(tl.float32)
    return tl.where(least > grid.max_value, grid.max_value, least)


@triton.jit
def scales_of(shared, above, target: tl.constexpr, cast: tl.constexpr):
    """``(quant_scale, scale, outer)`` of tiles.

    Args:
        shared: bits (int32) of their largest magnitudes, or their reach (fp64) under the rule quest.
        above: as in `float_scale`.
        target: the element's magnitude that an amax is scaled to.
        cast: `mixprec.kernels.triton._plan.CastPlan`.
    """
    one = ((shared != shared).to(tl.int32) * 0 + 0x3F800000).to(tl.float32, bitcast=True)
    quant_scale, scale, outer = one, one, one
    if cast.scale == "power":
        quant_scale, scale = power_scale(shared, cast)
        outer = quotient_of(one if cast.blocks else scale, one * cast.prescale)
        scale = scale if cast.blocks else one
    elif cast.scale == "fp32":
        quant_scale = fp32_quant_scale(shared, target)
        outer = quotient_of(one, quant_scale)
    elif cast.scale == "float":
        grid: tl.constexpr = cast.scale_grid
        quant_scale, scale = float_scale(shared, above, target, grid)
        outer = quotient_of(one, above)
    return quant_scale, scale, outer


@triton.jit
def encode_scale(scale, cast: tl.constexpr):
    """Codes (int32) of block scales."""
    if cast.scale == "float":
        grid: tl.constexpr = cast.scale_grid
        code = encode(scale, 0, grid)
    else:
        _, exponent = split_magnitude(magnitude_bits(scale))
        code = tl.where(scale == scale, exponent + E8M0_BIAS, E8M0_NAN)
    return code


@triton.jit
def decode_scale(codes, decoding: tl.constexpr):
    """fp32 block scales of their codes (int32)."""
    if decoding.scale == "float":
        grid: tl.constexpr = decoding.scale_grid
        scale = decode(codes, 0, grid)
    else:
        scale = tl.where(codes == E8M0_NAN, float("nan"), power_of_two(codes - E8M0_BIAS))
    return scale
