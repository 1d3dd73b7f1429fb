"""Exponents and powers of two from the bits, on the device: exact for every fp32 value, subnormals included."""

import triton
import triton.language as tl

SIGN_BIT = tl.constexpr(-(2**31))


@triton.jit
def widen(x):
    """fp32 of fp32, fp16 or bf16, exactly."""
    if x.dtype == tl.bfloat16:  # by its bits: the interpreter's conversion of subnormals is not exact
        wide = (x.to(tl.int16, bitcast=True).to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        wide = x.to(tl.float32)
    return wide


@triton.jit
def magnitude_bits(x):
    """The bits of ``|x|`` (fp32) as int32: they order as the magnitudes do; above 0x7F800000 lie the NaNs."""
    return x.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def split_magnitude(bits):
    """``(significand, exponent)`` of a finite magnitude: its value is ``significand * 2**(exponent - 23)``.

    The exponent is ``floor(log2)``, and the significand has 24 bits. Of zero: 0, and an exponent far below any other.
    """
    mantissa = bits & 0x7FFFFF
    # A subnormal counts units of 2**-149; as a number of its own its leading bit shows as an exponent.
    counted = mantissa.to(tl.float32).to(tl.int32, bitcast=True)
    normal = bits > 0x7FFFFF
    exponent = tl.where(normal, (bits >> 23) - 127, (counted >> 23) - 276)
    significand = tl.where(normal, mantissa, counted & 0x7FFFFF) | 0x800000
    return tl.where(bits > 0, significand, 0), exponent


@triton.jit
def power_of_two(exponent):
    """``2**exponent`` as fp32, for int32 exponents in [-149, 127]."""
    one = exponent * 0 + 1
    subnormal = one << tl.minimum(tl.maximum(exponent + 149, 0), 23)
    normal = tl.maximum(exponent + 127, 0) << 23
    return tl.where(exponent < -126, subnormal, normal).to(tl.float32, bitcast=True)


@triton.jit
def negate_where(condition, x):
    """fp32 x with its sign turned where the condition holds: zero too, which Triton's ``-x`` leaves positive."""
    return (x.to(tl.int32, bitcast=True) ^ tl.where(condition, SIGN_BIT, 0)).to(tl.float32, bitcast=True)
