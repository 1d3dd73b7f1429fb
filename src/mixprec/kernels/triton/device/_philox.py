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
    counter = ((index >> 5) << 3) | (index & 7)
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    offset = offset.to(tl.int64)
    zero = low ^ low
    offset_low, offset_high = zero + offset.to(tl.uint32), zero + (offset >> 32).to(tl.uint32)
    first, second, third, fourth = tl.philox(seed.to(tl.int64), low, high, offset_low, offset_high)
    lane = (index >> 3) & 3
    return tl.where(lane < 2, tl.where(lane == 0, first, second), tl.where(lane == 2, third, fourth))
