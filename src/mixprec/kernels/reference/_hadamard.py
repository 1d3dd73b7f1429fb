"""The orthonormal Walsh-Hadamard transform of groups along rows, with fixed pseudo-random signs.

The signs follow the random Hadamard transform of "Pretraining Large Language Models with NVFP4"
(arXiv 2509.25149): one fixed vector for all tensors, so that both operands of a GEMM agree.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._contract import SIGN_SEED
from ._philox import element_words


def pad_rows(x: Tensor, multiple: int) -> Tensor:
    """``[R, C]`` with zeros appended to its rows up to a multiple of ``multiple``.

    Example:
        >>> pad_rows(torch.ones(2, 3), 4).shape
        torch.Size([2, 4])
    """
    missing = -x.shape[1] % multiple
    return torch.nn.functional.pad(x, (0, missing)) if missing else x


def hadamard_rows(x: Tensor, size: int, signs: bool, inverse: bool = False) -> Tensor:
    """Transform groups of ``size`` elements along the rows of an fp32 matrix.

    Args:
        x: fp32 ``[R, C]``.
        size: length of a group, a power of two.
        signs: whether the fixed sign vector is applied (before the butterflies; after them when inverse).
        inverse: whether to undo the transform.

    Returns:
        fp32 ``[R, C']`` with C' the next multiple of ``size``. The order of the additions is fixed.

    Example:
        >>> hadamard_rows(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), 4, signs=False).tolist()
        [[0.5, 0.5, 0.5, 0.5]]
    """
    groups = pad_rows(x, size).reshape(x.shape[0], -(-x.shape[1] // size), size)
    flip = sign_vector(size, x.device) if signs else None
    if flip is not None and not inverse:
        groups = groups * flip
    groups = _butterflies(groups, size) * _normaliser(size)
    if flip is not None and inverse:
        groups = groups * flip
    return groups.reshape(x.shape[0], groups.shape[1] * size)


def sign_vector(size: int, device: torch.device) -> Tensor:
    """The fixed signs: fp32 ``[size]`` of +1 and -1.

    Example:
        >>> sign_vector(16, torch.device("cpu")).abs().sum().item()
        16.0
    """
    negative = element_words(size, SIGN_SEED, 0, device) & 1
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
