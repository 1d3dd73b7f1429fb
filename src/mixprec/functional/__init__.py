"""Products in low precision for code that calls functions: outside of any conversion, differentiable.

Each function is torch's of the same name, with three more arguments. ``precision`` gives the casts: a
``mixprec.specs.LayerPrecision``, or one cast for all operands in its one-line form. ``compute_dtype`` ("fp32", "bf16",
"fp16") is what operands without a cast are rounded to, and what the result is rounded to, once; by default the dtype of
the first operand. ``seed`` is that of stochastic roundings and fresh sign vectors: equal seeds give equal bits.

Operands are rounded exactly, along the reduction of each product, forward and backward; sums are fp32.
"""

from ._attention import scaled_dot_product_attention
from ._convolutions import conv1d, conv2d, conv3d
from ._products import bmm, einsum, linear, matmul

__all__ = ["bmm", "conv1d", "conv2d", "conv3d", "einsum", "linear", "matmul", "scaled_dot_product_attention"]
