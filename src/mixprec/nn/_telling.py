"""Whoever observes a step is told of each product, and of each call that is left to torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ._observer import LeftToTorch
from ._operand import FORMAT_OF_DTYPE
from ._site import ConversionState


def product(
    state: ConversionState, where: str, gemm: str, formats: tuple[str, str], engine: str
) -> AbstractContextManager[None]:
    """What runs inside is one GEMM of a site.

    Args:
        state: of the conversion.
        where: the site's name; empty for the running module.
        gemm: ``"fprop"``, ``"dgrad"``, ``"wgrad"``, ``"attention"``, ...
        formats: of the operands.
        engine: that runs it.
    """
    observer = state.listener
    return nullcontext() if observer is None else observer.product(where, gemm, formats, engine)


def plain_product(state: ConversionState, where: str, gemm: str, engine: str) -> AbstractContextManager[None]:
    """What runs inside is one GEMM of operands in the compute dtype."""
    name = FORMAT_OF_DTYPE[state.compute_dtype]
    return product(state, where, gemm, (name, name), engine if state.is_16bit else "native")


def plain(state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as it is, in fp32; the recipe knows of it and wants it so."""
    observer = state.listener
    if observer is None:
        return func(*args, **kwargs)
    with observer.left_to_torch(LeftToTorch("fp32", "fp32", "native")):
        return func(*args, **kwargs)


def left_to_torch(
    state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The call as it is: by a 16-bit recipe as whatever it is, by one of fp32 activations as its wish."""
    return func(*args, **kwargs) if state.is_16bit else plain(state, func, args, kwargs)


def compute_dtype_call(state: ConversionState, *, rounded: bool) -> AbstractContextManager[None]:
    """Torch's kernels multiply the compute dtype inside: its values in fp32 if they were ``rounded``, else natively."""
    observer = state.listener
    if observer is None:
        return nullcontext()
    name = FORMAT_OF_DTYPE[state.compute_dtype]
    call = LeftToTorch("fp32", name, "emulated") if rounded else LeftToTorch(name, name, "native")
    return observer.left_to_torch(call)
