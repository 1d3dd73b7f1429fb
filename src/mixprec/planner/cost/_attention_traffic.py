"""Elements that a product of fused attention reads and writes in the device's memory."""

from __future__ import annotations

from .._inventory import Product

#: Which of the left operand, the right one and the result are scores or their gradients, of queries by keys.
_SCORES = {
    ("qk", "fprop"): (1, 1, 0),
    ("pv", "fprop"): (0, 1, 1),
    ("pv", "dgrad"): (1, 1, 0),
    ("pv", "wgrad"): (0, 1, 1),
    ("qk", "dgrad"): (0, 1, 1),
    ("qk", "wgrad"): (0, 1, 1),
}


def attention_traffic(product: Product) -> tuple[int, int, int]:
    """Elements of the left operand, the right one and the result that go through memory; scores stay on the chip.

    A fused kernel makes the scores tile by tile in on-chip memory, multiplies them with the values there, and makes
    them again in its backward pass; no matrix of queries by keys is read or written (Dao et al. 2022, FlashAttention,
    arXiv:2205.14135, algorithms 1 and 4). Each operand counts once, as where the keys and values of a tile of queries
    are found in the cache.

    Args:
        product: of a site of attention, ``"qk"`` or ``"pv"``.

    Example:
        >>> attention_traffic(Product(site="qk", kind="qk", gemm="fprop", m=1024, n=1024, k=64))
        (65536, 65536, 0)
        >>> attention_traffic(Product(site="qk", kind="qk", gemm="dgrad", m=1024, n=64, k=1024))
        (0, 65536, 65536)
    """
    kept = _SCORES.get((product.kind, product.gemm), (1, 1, 1))
    left, right, out = (size * each for size, each in zip(product.elements, kept, strict=True))
    return left, right, out
