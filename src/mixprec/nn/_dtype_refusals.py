"""Operands that a converted layer does not multiply."""

from __future__ import annotations

import torch
from torch import Tensor

_TAKEN = (torch.float32, torch.bfloat16, torch.float16)


def refuse_dtypes(name: str, x: Tensor, weight: Tensor) -> None:
    """Refuse what a cast would change without a word: integers, complex numbers, fp64.

    Raises:
        TypeError: naming the layer. torch refuses such a pair too, since the dtypes differ.
    """
    if x.dtype in _TAKEN and weight.dtype in _TAKEN:
        return
    which, got = ("an input", x.dtype) if x.dtype not in _TAKEN else ("a weight", weight.dtype)
    hint = "the model was converted with other weights: restore() it, or call .float() on the layer"
    if which == "an input":
        hint = (
            "give it floating values, such as x.float(); values that need fp64 belong in a part that is not converted"
        )
    raise TypeError(
        f"{name or 'the model'}: got {which} of dtype {str(got).removeprefix('torch.')}, expected float32, bfloat16 or "
        f"float16: {hint}"
    )
