"""Operands that a function of ``mixprec.functional`` does not multiply."""

from __future__ import annotations

import torch
from torch import Tensor

_TAKEN = (torch.float32, torch.bfloat16, torch.float16)


def refuse_operands(name: str, *operands: object) -> None:
    """Refuse what is no tensor, and what a cast would change without a word: integers, complex numbers, fp64.

    Args:
        name: of the function.
        *operands: of its products, in the order in which it takes them.

    Raises:
        TypeError: naming the function and the operand.
    """
    for place, operand in enumerate(operands, 1):
        if not isinstance(operand, Tensor):
            raise TypeError(f"{name}: got a {type(operand).__name__} as operand {place}, expected a torch.Tensor")
        refuse_operand_dtype(name, place, operand.dtype)


def refuse_operand_dtype(name: str, place: int, dtype: torch.dtype) -> None:
    """As ``refuse_operands``, of one operand's dtype."""
    if dtype in _TAKEN:
        return
    which = {1: "an input", 2: "a weight"}.get(place, f"operand {place}")
    raise TypeError(
        f"{name}: got {which} of dtype {str(dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16: "
        "give it floating values, such as t.float(); what needs other values belongs in torch's own function"
    )
