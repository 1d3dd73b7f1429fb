"""The kernel of the Walsh-Hadamard transform alone."""

import triton
import triton.language as tl

from ._tiles import program_units, read_transformed


@triton.jit(do_not_specialize=["sign_seed", "sign_offset"])
def hadamard_kernel(
    x, result, shape, sign_seed: tl.int64, sign_offset: tl.int64, geometry: tl.constexpr, hadamard: tl.constexpr
):
    """Write the transform of a matrix; ``shape``: `mixprec.kernels.triton._launch.Shape`."""
    units = program_units(shape.padded_columns, geometry)
    values, row, column, inside = read_transformed(x, units, shape, (sign_seed, sign_offset), geometry, hadamard)
    tl.store(result + row * shape.padded_columns + column, values, mask=inside)
