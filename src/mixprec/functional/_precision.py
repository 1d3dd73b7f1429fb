"""What ``precision`` may be."""

from __future__ import annotations

from typing import TypedDict, Unpack

from torch import Tensor

from ..nn import StandaloneProducts
from ..specs import LayerPrecision

Precision = LayerPrecision | str | None


class Options(TypedDict, total=False):
    """What every function takes besides torch's own arguments.

    Attributes:
        precision: the casts of the six operands, or one cast for all.
        compute_dtype: ``"fp32"``, ``"bf16"`` or ``"fp16"``.
        seed: of stochastic roundings and fresh signs.
    """

    precision: Precision
    compute_dtype: str | None
    seed: int


def products(name: str, like: object, **options: Unpack[Options]) -> StandaloneProducts:
    """The products of one call.

    Args:
        name: of the function.
        like: its first operand.
        **options: what it was given.

    Raises:
        TypeError: an operand of another dtype, a precision that is none, an option that is none.
        ValueError: a text that is no cast, or another compute dtype.
    """
    if not isinstance(like, Tensor):
        raise TypeError(f"{name}: got a {type(like).__name__} as operand 1, expected a torch.Tensor")
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"{name}: got {', '.join(sorted(unknown))}, expected {', '.join(Options.__annotations__)}")
    precision, compute_dtype, seed = options.get("precision"), options.get("compute_dtype"), options.get("seed", 0)
    return StandaloneProducts(name, precision, compute_dtype, seed, like.device, like.dtype).told()
