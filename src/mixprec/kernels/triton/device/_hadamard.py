"""The Walsh-Hadamard transform of groups of elements in a block, on the device."""

import triton
import triton.language as tl

from ._bits import negate_where
from ._philox import random_word


@triton.jit
def transform(x, seed, offset, geometry: tl.constexpr, hadamard: tl.constexpr):
    """Transform the groups along an axis of a block ``[row units, column units, unit]``.

    Args:
        x: fp32.
        seed: key of the sign vector.
        offset: its offset.
        geometry: how the block lies in the matrix; units follow one another along the axis.
        hadamard: size, axis and order, `mixprec.kernels.triton._plan.Hadamard`.
    """
    # The elements of a group lie at one distance within a unit, and at another from unit to unit.
    extent: tl.constexpr = geometry.unit_columns if hadamard.axis == 1 else geometry.unit_rows
    near: tl.constexpr = 1 if hadamard.axis == 1 else geometry.unit_columns
    far: tl.constexpr = geometry.unit_size if hadamard.axis == 1 else geometry.unit_size * geometry.column_units
    x = tl.reshape(x, (geometry.elements,))
    if hadamard.signs and not hadamard.inverse:
        x = _flip(x, seed, offset, hadamard.size, extent, near, far)
    levels: tl.constexpr = hadamard.levels
    for level in tl.static_range(levels):
        x = _butterfly(x, near << level if (1 << level) < extent else far * ((1 << level) // extent))
    x = x * hadamard.normaliser
    if hadamard.signs and hadamard.inverse:
        x = _flip(x, seed, offset, hadamard.size, extent, near, far)
    return tl.reshape(x, (geometry.row_units, geometry.column_units, geometry.unit_size))


@triton.jit
def _butterfly(x, distance: tl.constexpr):
    """``(a, b) -> (a + b, a - b)`` for elements at a distance."""
    pairs = tl.reshape(x, (x.shape[0] // (2 * distance), 2, distance))
    second = (tl.arange(0, 2) == 1)[None, :, None]
    # Each element meets the other of its pair: the bits of both, added, less its own.
    bits = pairs.to(tl.int32, bitcast=True)
    other = (tl.sum(bits, axis=1, keep_dims=True) - bits).to(tl.float32, bitcast=True)
    return tl.reshape(tl.where(second, other - pairs, pairs + other), (x.shape[0],))


@triton.jit
def _flip(x, seed, offset, size: tl.constexpr, extent: tl.constexpr, near: tl.constexpr, far: tl.constexpr):
    """Elements with the signs of their place in the group."""
    inner: tl.constexpr = size if size < extent else extent
    outer: tl.constexpr = size // inner
    word = random_word(tl.arange(0, size).to(tl.int64), seed, offset)
    negative = tl.reshape((word & 1) == 1, (1, outer, 1, inner, 1))
    groups = tl.reshape(x, (x.shape[0] // (outer * far), outer, far // (near * inner), inner, near))
    return tl.reshape(negate_where(negative, groups), (x.shape[0],))
