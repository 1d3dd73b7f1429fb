"""The choice between two scales of a tile by squared error, on the device."""

import triton
import triton.language as tl


@triton.jit
def squared_error(x, above, elements, scale, geometry: tl.constexpr):
    """fp64 ``[NR, NC, 1]``: the sum over each unit of ``(elements * scale - x * above)**2``, added by halving."""
    values = elements.to(tl.float64) * scale.to(tl.float64)
    difference = values - x.to(tl.float64) * above.to(tl.float64)
    total = difference * difference
    levels: tl.constexpr = geometry.unit_levels
    for level in tl.static_range(levels):
        total = _add_halves(total, geometry.row_units, geometry.column_units, geometry.unit_size >> (level + 1))
    return total


@triton.jit
def _add_halves(values, rows: tl.constexpr, columns: tl.constexpr, half: tl.constexpr):
    """The second half of the last axis added to the first; a sum of two has one order."""
    return tl.sum(tl.reshape(values, (rows, columns, 2, half)), axis=2)
