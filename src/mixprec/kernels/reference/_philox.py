"""Philox-4x32-10 in torch's int64 arithmetic: random bits that depend on the element's index alone.

J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), section 3.3 and the constants of
its library Random123.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


def element_words(count: int, seed: int, offset: int, device: torch.device) -> Tensor:
    """One 32-bit word per element.

    Element i uses word ``(i // 8) % 4`` of the block with counter ``(i // 32) * 8 + i % 8``: eight
    neighbouring blocks (a vector register of 32-bit lanes) serve 32 elements in a row.

    Args:
        count: number of elements.
        seed: 64-bit key (signed integers count as two's complement).
        offset: 64-bit upper half of the counter.
        device: where the words are made.

    Returns:
        int64 tensor ``[count]`` with values in ``[0, 2**32)``.

    Example:
        >>> element_words(3, 0, 0, torch.device("cpu"))[0].item() == 0x6627E8D5
        True
    """
    groups = -(-count // 32)
    counters = torch.arange(groups * 8, dtype=torch.int64, device=device)
    words = philox_words(counters, seed, offset)
    return words.reshape(4, groups, 8).transpose(0, 1).reshape(-1)[:count]


def philox_words(counters: Tensor, seed: int, offset: int) -> Tensor:
    """The four words of each block: int64 ``[4, len(counters)]`` with values in ``[0, 2**32)``.

    Args:
        counters: int64 ``[N]``, counter words 0 (low) and 1 (high).
        seed: key words 0 (low) and 1 (high).
        offset: counter words 2 (low) and 3 (high).

    Example:
        >>> block = philox_words(torch.tensor([0]), 0, 0)[:, 0]
        >>> [f"{word:08x}" for word in block.tolist()]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1 = counters & _MASK, (counters >> 32) & _MASK
    c2, c3 = torch.full_like(c0, offset & _MASK), torch.full_like(c0, (offset >> 32) & _MASK)
    k0, k1 = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return torch.stack((c0, c1, c2, c3))


def _multiply(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """High and low halves of the 64-bit product of two 32-bit words.

    The multiplier is split in 16-bit halves, so that no partial product leaves the signed 64-bit range.
    """
    low_part = word * (multiplier & 0xFFFF)
    high_part = word * (multiplier >> 16) + (low_part >> 16)
    return high_part >> 16, ((high_part & 0xFFFF) << 16) | (low_part & 0xFFFF)
