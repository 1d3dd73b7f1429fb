"""The kernel that multiplies matrices with a narrow accumulator."""

import triton
import triton.language as tl


@triton.jit
def product_kernel(matrices, shape, sums: tl.constexpr):
    """``a @ b``, every output summed in the order of the reduction.

    Args:
        matrices: addresses of a ``[M, K]``, b ``[K, N]`` (fp32, contiguous) and the result ``[M, N]``.
        shape: M, N, K.
        sums: `mixprec.kernels.triton._plan.ProductPlan`.
    """
    rows: tl.constexpr = sums.rows
    columns: tl.constexpr = sums.columns
    across = (shape[1] + (columns - 1)) // columns
    program = tl.program_id(0).to(tl.int64)
    row = (program // across * rows + tl.arange(0, rows))[:, None]
    column = (program % across * columns + tl.arange(0, columns))[None, :]
    a_column, b_row = matrices[0] + row * shape[2], matrices[1] + column
    total = tl.zeros((rows, columns), tl.float32)
    partial = tl.zeros((rows, columns), tl.float64)
    for k in range(shape[2]):
        a = tl.load(a_column, mask=row < shape[0], other=0.0).to(tl.float64)
        b = tl.load(b_row, mask=column < shape[1], other=0.0).to(tl.float64)
        partial = _narrow(partial + a * b, sums)
        if sums.promote_every > 0:
            is_full = (k + 1) % sums.promote_every == 0
            total = tl.where(is_full, total + partial.to(tl.float32), total)
            partial = tl.where(is_full, 0.0, partial)
        a_column += 1
        b_row += shape[1]
    total += partial.to(tl.float32)
    tl.store(matrices[2] + row * shape[1] + column, total, mask=(row < shape[0]) & (column < shape[1]))


@triton.jit
def _narrow(x, sums: tl.constexpr):
    """fp64 with its significand rounded to ``mantissa_bits``; infinities and NaN stay."""
    dropped: tl.constexpr = 52 - sums.mantissa_bits
    bits = x.to(tl.int64, bitcast=True)
    kept = bits
    if sums.rounding == "nearest-even":
        kept += ((1 << (dropped - 1)) - 1) + ((bits >> dropped) & 1)
    kept = (kept >> dropped) << dropped
    finite = tl.abs(x) < float("inf")
    return tl.where(finite, kept.to(tl.float64, bitcast=True), x)
