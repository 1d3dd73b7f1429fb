"""Philox-4x32-10, the counter-based random generator, in plain Python.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_ROUNDS = 10


def philox_4x32_10(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Turn a counter and a key into four random 32-bit words.

    Args:
        counter: four 32-bit words, the lowest first.
        key: two 32-bit words, the lower first.

    Returns:
        Four 32-bit words, bit for bit those of Random123's ``philox4x32`` with 10 rounds.

    Example:
        >>> [f"{word:08x}" for word in philox_4x32_10((0, 0, 0, 0), (0, 0))]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        even = _MULTIPLIERS[0] * c0
        odd = _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (odd >> 32) ^ c1 ^ k0, odd & _WORD, (even >> 32) ^ c3 ^ k1, even & _WORD
        k0 = (k0 + _KEY_STEPS[0]) & _WORD
        k1 = (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def random_bits(seed: int, offset: int, index: int) -> int:
    """Give the 32 random bits of one element of one call.

    The key is the seed, counter words 2 and 3 are the offset, and element ``i`` takes word
    ``(i // 8) % 4`` of the block whose counter (words 0 and 1) is ``(i // 32) * 8 + i % 8``: 32
    neighbours come from 8 blocks side by side, which suits 8 SIMD lanes. The bits depend on no thread,
    tile or device.

    Args:
        seed: 64 bits; a negative number stands for its two's complement.
        offset: 64 bits, as the seed; two calls with different offsets share no bits.
        index: position of the element in C order, from 0.

    Returns:
        An integer from 0 to 2**32 - 1.

    Raises:
        ValueError: the index is negative.

    Example:
        >>> hex(random_bits(0, 0, 0)), hex(random_bits(0, 0, 8))
        ('0x6627e8d5', '0xe169c58d')
    """
    if index < 0:
        raise ValueError(f"index is {index}, expected the element's position from 0")
    block = (index // 32) * 8 + index % 8
    counter = (block & _WORD, (block >> 32) & _WORD, offset & _WORD, (offset >> 32) & _WORD)
    return philox_4x32_10(counter, (seed & _WORD, (seed >> 32) & _WORD))[(index // 8) % 4]
