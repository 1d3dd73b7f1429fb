"""Products with full fp32 multiplications."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
_CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.convolution_backward)
_EXACT = ("ieee", "none")


def exactly(product: Callable[..., Result], *arguments: Any) -> Result:
    """``product(*arguments)`` with full fp32 products, whatever torch has been told to be fast with.

    TF32 or bf16 products would round the carriers again: of matrices after ``torch.set_float32_matmul_precision``, of
    convolutions on a CUDA device from the beginning.
    """
    first: Tensor = arguments[0]
    if product in _CONVOLUTIONS:
        return _exact_convolution(product, arguments, first.device.type)
    return _exact_matrices(product, arguments)


def _exact_matrices(product: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
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


def _exact_convolution(product: Callable[..., Result], arguments: tuple[Any, ...], device_type: str) -> Result:
    before = convolution_precision(device_type)
    if before in _EXACT:
        return product(*arguments)
    if torch.compiler.is_compiling():
        name = "cudnn" if device_type == "cuda" else "mkldnn"
        raise RuntimeError(
            f"compiling a converted model while torch.backends.{name}.conv.fp32_precision is {before!r}: expected "
            "'ieee', which alone multiplies the rounded operands of a convolution exactly; set it before torch.compile "
            "traces the model"
        )
    with exact_convolutions(device_type):
        return product(*arguments)


@contextmanager
def exact_convolutions(device_type: str) -> Generator[None]:
    """Full fp32 products in the convolutions of a kind of device inside; what was asked for before comes back."""
    flags = _flags(device_type)
    before = flags.fp32_precision
    flags.fp32_precision = "ieee"
    try:
        yield
    finally:
        flags.fp32_precision = before


def convolution_precision(device_type: str) -> str:
    """What torch multiplies fp32 convolutions in on a kind of device: ``"ieee"`` or ``"none"`` (exact), or less."""
    precision: str = _flags(device_type).fp32_precision
    return precision


def _flags(device_type: str) -> Any:
    backend: Any = torch.backends.cudnn if device_type == "cuda" else torch.backends.mkldnn
    return backend.conv


def _precision() -> str:
    return torch.get_float32_matmul_precision()


# What torch.compiler.assume_constant_result sets; calling that would import the whole compiler here.
_precision._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
convolution_precision._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
