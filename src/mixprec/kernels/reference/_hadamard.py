"""The orthonormal Walsh-Hadamard transform of groups along rows, after a vector of pseudo-random signs.

Both operands of a product must be flipped alike. One fixed vector for all tensors follows "Pretraining Large Language
Models with NVFP4" (arXiv:2509.25149); a fresh one for every product, "Training LLMs with MXFP4" (arXiv:2502.20586).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._contract import SignKey
from ._philox import element_words


def hadamard_rows(x: Tensor, size: int, signs: SignKey | None, inverse: bool = False) -> Tensor:
    """Transform groups of ``size`` elements along the rows of an fp32 matrix.

    Args:
        x: fp32 ``[R, C]``.
        size: length of a group, a power of two.
        signs: key of the sign vector (applied before the butterflies; after them when inverse), or None.
        inverse: whether to undo the transform.

    Returns:
        fp32 ``[R, C']`` with C' the next multiple of ``size``. The order of the additions is fixed.

    Example:
        >>> hadamard_rows(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), 4, signs=None).tolist()
        [[0.5, 0.5, 0.5, 0.5]]
    """
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % size))
    groups = padded.reshape(x.shape[0], padded.shape[1] // size, size)
    flip = sign_vector(size, signs, x.device) if signs else None
    if flip is not None and not inverse:
        groups = groups * flip
    groups = _butterflies(groups, size) * _normaliser(size)
    if flip is not None and inverse:
        groups = groups * flip
    return groups.reshape(padded.shape)


def transformed(x: Tensor, size: int, signs: SignKey | None, axis: int, inverse: bool) -> Tensor:
    """As `hadamard_rows`, along either axis of a matrix; contiguous.

    Example:
        >>> transformed(torch.ones(4, 1), 4, None, 0, inverse=False).flatten().tolist()
        [2.0, 0.0, 0.0, 0.0]
    """
    if axis == 1:
        return hadamard_rows(x, size, signs, inverse).contiguous()
    return hadamard_rows(x.T, size, signs, inverse).T.contiguous()


def sign_vector(size: int, key: SignKey, device: torch.device) -> Tensor:
    """The signs of a key: fp32 ``[size]`` of +1 and -1.

    Example:
        >>> sign_vector(16, SignKey(0, 0), torch.device("cpu"))[:8].tolist()
        [-1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    """
    negative = element_words(size, key.seed, key.offset, device) & 1
    return (1 - 2 * negative).float()


def _normaliser(size: int) -> float:
    """``fp32(1 / sqrt(size))``; a Python float takes part in fp32 arithmetic rounded to fp32."""
    return 1.0 / math.sqrt(size)


def _butterflies(groups: Tensor, size: int) -> Tensor:
    """``(a, b) -> (a + b, a - b)`` for elements j and j + h, for h = 1, 2, 4, ..., size / 2."""
    shape = groups.shape
    h = 1
    while h < size:
        pairs = groups.reshape(*shape[:2], size // (2 * h), 2, h)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        groups = torch.stack((a + b, a - b), dim=-2).reshape(shape)
        h *= 2
    return groups
