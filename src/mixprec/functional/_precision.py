"""What ``precision`` may be."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from ..nn import StandaloneProducts
from ..specs import LayerPrecision

Precision = LayerPrecision | str | None


def read(precision: Precision, name: str) -> LayerPrecision | None:
    """A layer precision from one, from a cast's text, or from nothing.

    Raises:
        TypeError: something else.
        ValueError: a text that is no cast.
    """
    if precision is None or isinstance(precision, LayerPrecision):
        return precision
    if not isinstance(precision, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
        raise TypeError(
            f"{name}: precision is a {type(precision).__name__}, expected a LayerPrecision, a cast such as 'mxfp8 "
            "rceil', or None"
        )
    return LayerPrecision.uniform(precision)


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


def products(name: str, like: Tensor, **options: Unpack[Options]) -> StandaloneProducts:
    """The products of one call.

    Args:
        name: of the function.
        like: its first operand.
        **options: what it was given.

    Raises:
        TypeError: an operand of another dtype, a precision that is none, an option that is none.
        ValueError: a text that is no cast, or another compute dtype.
    """
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"{name}: got {', '.join(sorted(unknown))}, expected {', '.join(Options.__annotations__)}")
    # A compiler calls this as it is: making a cast is no computation on tensors.
    if torch.compiler.is_compiling():
        outside: Any = torch.compiler.disable(_products)
        return outside(name, like, options)
    return _products(name, like, options)


def _products(name: str, like: Tensor, options: Options) -> StandaloneProducts:
    precision = read(options.get("precision"), name)
    compute_dtype, seed = options.get("compute_dtype"), options.get("seed", 0)
    return StandaloneProducts(name, precision, compute_dtype, seed, like.device, like.dtype).told()
