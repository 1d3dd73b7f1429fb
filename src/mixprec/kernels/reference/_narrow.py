"""Products of matrices whose sums are kept in few mantissa bits."""

from __future__ import annotations

import torch
from torch import Tensor

from .._contract import Sums

_DOUBLE_MANTISSA_BITS = 52
_DOUBLE_TOP_EXPONENT = 0x7FF


def narrow_product(a_MK: Tensor, b_KN: Tensor, sums: Sums) -> Tensor:
    """``a @ b``, each output summed one product at a time, in the order of K.

    Args:
        a_MK: fp32 ``[M, K]``.
        b_KN: fp32 ``[K, N]``.
        sums: the accumulator.

    Returns:
        fp32 ``[M, N]``.

    Example:
        >>> a, b = torch.ones(1, 9), torch.ones(9, 1)
        >>> narrow_product(a, b, Sums(mantissa_bits=2, rounding="toward-zero")).item()
        8.0
    """
    total = a_MK.new_zeros(a_MK.shape[0], b_KN.shape[1])
    accumulator = total.double()
    # A product of two fp32 numbers is exact in fp64.
    left, right = a_MK.double().T.unsqueeze(2), b_KN.double().unsqueeze(1)
    for k in range(b_KN.shape[0]):
        accumulator = narrow(accumulator + left[k] * right[k], sums)
        if sums.promote_every and (k + 1) % sums.promote_every == 0:
            total = total + accumulator.float()
            accumulator = torch.zeros_like(accumulator)
    return total + accumulator.float()


def narrow(x: Tensor, sums: Sums) -> Tensor:
    """fp64 values with their significand rounded to the accumulator's mantissa bits; any exponent.

    Example:
        >>> x = torch.tensor([1.125, 1.375, -1.3], dtype=torch.float64)
        >>> narrow(x, Sums(mantissa_bits=2, rounding="nearest-even")).tolist()
        [1.0, 1.5, -1.25]
    """
    dropped = _DOUBLE_MANTISSA_BITS - sums.mantissa_bits
    bits = x.view(torch.int64)
    rounded = bits
    if sums.rounding == "nearest-even":  # a carry out of the mantissa is one more in the exponent, as it should be
        rounded = bits + ((1 << (dropped - 1)) - 1) + ((bits >> dropped) & 1)
    rounded = rounded & -(1 << dropped)
    finite = ((bits >> _DOUBLE_MANTISSA_BITS) & _DOUBLE_TOP_EXPONENT) != _DOUBLE_TOP_EXPONENT
    return torch.where(finite, rounded, bits).view(torch.float64)
