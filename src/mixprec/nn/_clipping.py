"""Casts that clip on purpose: what was clipped passes no gradient on.

QuEST (arXiv:2502.05003) and Quartet (arXiv:2505.14669) trust the gradient only where rounding moved a value little: in
the space after the Hadamard transform, elements beyond the largest grid value get none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import kernels
from ._cast_context import CastContext
from ._operand_cast import OperandCast

_SMALLEST = 0x00400000  # bits of 2**-127
_BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def trusted(x_RC: Tensor, cast: OperandCast, context: CastContext) -> Tensor:
    """Where a matrix was not clipped: bits of the transformed matrix, uint8 ``[R, ceil(C' / 8)]``; axis 1."""
    random, stream, sign_stream = context.random, context.element_stream, context.sign_streams[0]
    _, codes, _ = kernels.quantize(x_RC, cast.text, axis=1, random=random, stream=stream, sign_stream=sign_stream)
    exponents = codes.int()
    # Powers of two from their bits; the smallest is subnormal.
    scale = torch.where(exponents == 0, _SMALLEST, exponents << 23).view(torch.float32)
    moved = _transformed(x_RC, cast, context)
    limit = scale.repeat_interleave(cast.tile[0], 0).repeat_interleave(cast.tile[1], 1)[
        : moved.shape[0], : moved.shape[1]
    ]
    return _packed(moved.abs() <= limit * cast.max_value)


def passed_on(grad_RC: Tensor, bits: Tensor, cast: OperandCast, context: CastContext) -> Tensor:
    """A gradient without what belongs to clipped elements; in and out in the matrix's own space."""
    moved = _transformed(grad_RC, cast, context)
    kept = torch.where(_unpacked(bits, moved.shape[1]), moved, 0.0)
    if not cast.transform:
        return kept
    back = kernels.hadamard_inverse(
        kept, cast.transform, signs=cast.signs, axis=1, random=context.random, sign_stream=context.sign_streams[0]
    )
    return back[:, : grad_RC.shape[1]]


def _transformed(x_RC: Tensor, cast: OperandCast, context: CastContext) -> Tensor:
    if not cast.transform:
        return x_RC.float()
    return kernels.hadamard(
        x_RC, cast.transform, signs=cast.signs, axis=1, random=context.random, sign_stream=context.sign_streams[0]
    )


def _packed(mask_RC: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(mask_RC, (0, -mask_RC.shape[1] % 8))
    weights = torch.tensor(_BITS, dtype=torch.uint8, device=mask_RC.device)
    return (padded.reshape(mask_RC.shape[0], -1, 8) * weights).sum(-1, dtype=torch.uint8)


def _unpacked(bits: Tensor, columns: int) -> Tensor:
    weights = torch.tensor(_BITS, dtype=torch.uint8, device=bits.device)
    return (bits[..., None] & weights).ne(0).flatten(1)[:, :columns]
