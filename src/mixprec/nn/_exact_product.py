"""Products with full fp32 multiplications."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


def exactly(product: Callable[..., Result], *arguments: object) -> Result:
    """``product(*arguments)`` with full fp32 products, whatever ``torch.set_float32_matmul_precision`` says.

    TF32 or bf16 products would round the carriers again.
    """
    before = _precision()
    if before == "highest":
        return product(*arguments)
    if torch.compiler.is_compiling():
        raise RuntimeError(
            f"compiling a converted model under torch.set_float32_matmul_precision({before!r}): expected 'highest', "
            "which alone multiplies the rounded operands exactly; set it before torch.compile traces the model"
        )
    torch.set_float32_matmul_precision("highest")
    try:
        return product(*arguments)
    finally:
        torch.set_float32_matmul_precision(before)


def _precision() -> str:
    return torch.get_float32_matmul_precision()


# What torch.compiler.assume_constant_result sets; calling that would import the whole compiler here.
_precision._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
