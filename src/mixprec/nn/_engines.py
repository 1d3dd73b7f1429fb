"""How a GEMM runs: natively, or with exact operands in a wider carrier.

An operand is a carrier (the exact values that a native engine would multiply, up to a scale) and an outer
scale that is constant along the reduction, applied to the output.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import kernels
from ..specs import Accumulator
from ._exact_product import exactly
from ._operand import FORMAT_OF_DTYPE, Operand
from ._special_products import special_product
from ._workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Product:
    """One GEMM to run, ``a_MK @ b_KN``, under the engine that the conversion chose.

    Attributes:
        native_compute: whether the device multiplies the compute dtype.
        native_fp8: whether the device multiplies FP8.
        out_dtype: what the sums are rounded to, once.
        held_in_fp32: whether the rounded values are wanted in an fp32 tensor.
        workspace: memory for sums that are rounded afterwards.
        accumulator: what the sums are kept in, where that is narrower than fp32.
    """

    native_compute: bool
    native_fp8: bool
    out_dtype: torch.dtype
    held_in_fp32: bool = False
    workspace: Workspace
    accumulator: Accumulator | None = None


def engine_name(a: Operand, b: Operand, product: Product) -> str:
    """``native`` where the device multiplies these operands as they are, else ``emulated``."""
    if _runs_native_fp8(a, b, product):
        return "native"
    if product.accumulator is not None:
        return "emulated"
    if _is_rounded(a) or _is_rounded(b) or _scaled(a, b) or a.carrier.dtype != b.carrier.dtype:
        return "emulated"
    if a.carrier.dtype == torch.float32:
        return "native"
    # A CUDA device can also sum 16-bit products to an fp32 result; torch's CPU product rounds it.
    takes = product.out_dtype == a.carrier.dtype or a.carrier.device.type == "cuda"
    return "native" if product.native_compute and takes else "emulated"


def multiply(a: Operand, b: Operand, product: Product, bias_N: Tensor | None = None) -> Tensor:
    """``a @ b (+ bias)``, summed in fp32 and rounded once to ``out_dtype``.

    Args:
        a: carrier [M, K], outer [], [M, 1] or None.
        b: carrier [K, N], outer [], [1, N] or None.
        product: engine and output dtype.
        bias_N: added in fp32 before the rounding.
    """
    if engine_name(a, b, product) == "native":
        if _runs_native_fp8(a, b, product):
            return _native_fp8(a, b, product, bias_N)
        if product.out_dtype == a.carrier.dtype:
            y_MN = _matrix_product(a.carrier, b.carrier, bias_N)
            return y_MN.float() if product.held_in_fp32 else y_MN
    special = special_product(a, b, product.accumulator)
    fuses_bias = special is None and not _scaled(a, b)
    if special is None:
        y_MN = _wide_product(a.carrier, b.carrier, bias_N if fuses_bias else None, _sums(a, b, product))
    else:
        y_MN = special
    y_MN = with_outer_scales(y_MN, a.outer, b.outer)
    if bias_N is not None and not fuses_bias:
        y_MN = y_MN.add_(bias_N.float())
    return _rounded_once(y_MN, product)


def with_outer_scales(y_MN: Tensor, a: Tensor | None, b: Tensor | None) -> Tensor:
    """A product, or a convolution, times the scales of its operands that are not ``None``, in place."""
    if a is not None and b is not None and a.dim() == b.dim() == 0:
        return y_MN.mul_(a * b)  # one pass; only where both scales are near 2**-70 does their product lose digits
    for outer in (a, b):
        if outer is not None:
            y_MN = y_MN.mul_(outer)
    return y_MN


def _sums(a: Operand, b: Operand, product: Product) -> Tensor | None:
    """Memory for the sums of a product that is rounded afterwards."""
    if product.out_dtype == torch.float32:
        return None
    return product.workspace.take("sums", (a.carrier.shape[0], b.carrier.shape[1]), a.carrier.device)


def _rounded_once(y_MN: Tensor, product: Product) -> Tensor:
    if product.held_in_fp32 and product.out_dtype != torch.float32:
        return kernels.round(y_MN, FORMAT_OF_DTYPE[product.out_dtype])
    return y_MN.to(product.out_dtype)


def _scaled(a: Operand, b: Operand) -> bool:
    return a.outer is not None or b.outer is not None


def _is_rounded(operand: Operand) -> bool:
    """Whether the carrier stands for a narrower format than its dtype."""
    return FORMAT_OF_DTYPE[operand.carrier.dtype] != operand.format


def _matrix_product(a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None, out: Tensor | None = None) -> Tensor:
    if bias_N is None:
        return torch.mm(a_MK, b_KN) if out is None else torch.mm(a_MK, b_KN, out=out)
    bias_N = bias_N.to(a_MK.dtype)
    return torch.addmm(bias_N, a_MK, b_KN) if out is None else torch.addmm(bias_N, a_MK, b_KN, out=out)


def _wide_product(a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None, out: Tensor | None) -> Tensor:
    """The product of exact carriers with fp32 sums, in fp32."""
    if a_MK.device.type == "cuda" and bias_N is None and _fit_bf16(a_MK, b_KN):
        return torch.mm(a_MK, b_KN, out_dtype=torch.float32)
    return exactly(_matrix_product, a_MK.float(), b_KN.float(), bias_N, out)


def _fit_bf16(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.dtype in (torch.bfloat16, torch.float16)


# --- FP8 through torch._scaled_mm -------------------------------------------------------------------

_FACTORED = ("tensor]", "row]", "tensor:e8m0]", "row:e8m0]")
_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def _fp8_dtype(operand: Operand) -> torch.dtype | None:
    element, _, rest = operand.format.partition("[")
    return _FP8.get(element) if rest.startswith(_FACTORED) else None


def _runs_native_fp8(a: Operand, b: Operand, product: Product) -> bool:
    if not product.native_fp8 or product.accumulator is not None:
        return False
    a_dtype, b_dtype = _fp8_dtype(a), _fp8_dtype(b)
    if a_dtype is None or b_dtype is None or a_dtype == b_dtype == torch.float8_e5m2:
        return False
    same_granularity = (a.outer is not None and a.outer.dim()) == (b.outer is not None and b.outer.dim())
    m, k = a.carrier.shape
    n = b.carrier.shape[1]
    # The units take tiles of 16; rows of M are free (PyTorch, torch._scaled_mm checks).
    return same_granularity and m > 0 and k % 16 == 0 and n % 16 == 0


def _native_fp8(a: Operand, b: Operand, product: Product, bias_N: Tensor | None) -> Tensor:
    a_dtype, b_dtype = _fp8_dtype(a), _fp8_dtype(b)
    if a_dtype is None or b_dtype is None or a.outer is None or b.outer is None:
        raise RuntimeError(f"native FP8 product got operands {a.format} and {b.format}: both must be scaled FP8")
    y_MN = torch._scaled_mm(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]  # torch's only door to FP8 products
        a.carrier.to(a_dtype),
        b.carrier.t().contiguous().to(b_dtype).t(),
        scale_a=a.outer.contiguous(),
        scale_b=b.outer.contiguous(),
        out_dtype=torch.float32,
    )
    if bias_N is not None:
        y_MN = y_MN.add_(bias_N.float())
    return _rounded_once(y_MN, product)
