"""Random bits on the device that depend on the element's index alone: Philox-4x32-10 (`mixprec.kernels.Backend`)."""

import triton
import triton.language as tl


@triton.jit
def random_word(index, seed, offset):
    """The 32-bit word (uint32) of each element.

    Args:
        index: int64, the element's place in C order.
        seed: the key, a signed integer of up to 64 bits.
        offset: upper half of the counter, likewise.
    """
    first, second, third, fourth = _block_words(((index >> 5) << 3) | (index & 7), seed, offset)
    lane = (index >> 3) & 3
    return tl.where(lane < 2, tl.where(lane == 0, first, second), tl.where(lane == 2, third, fourth))


@triton.jit
def words_of_lines(lines, seed, offset):
    """The words of 32 elements in a row, uint32 ``[A, B, C, 32]``: a quarter of the work that they take one by one.

    Args:
        lines: int64 ``[A, B, C]``, the places of such lines in C order.
        seed: as of `random_word`.
        offset: as of `random_word`.
    """
    first, second, third, fourth = _block_words(
        lines[:, :, :, None] * 8 + tl.arange(0, 8)[None, None, None, :], seed, offset
    )
    words = tl.join(tl.join(first, second), tl.join(third, fourth))  # [A, B, C, 8, which of two, which two]
    return tl.reshape(tl.permute(words, (0, 1, 2, 5, 4, 3)), (lines.shape[0], lines.shape[1], lines.shape[2], 32))


@triton.jit
def _block_words(counter, seed, offset):
    """The four words of each block of the generator."""
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    offset = offset.to(tl.int64)
    zero = low ^ low
    offset_low, offset_high = zero + offset.to(tl.uint32), zero + (offset >> 32).to(tl.uint32)
    return tl.philox(seed.to(tl.int64), low, high, offset_low, offset_high)
