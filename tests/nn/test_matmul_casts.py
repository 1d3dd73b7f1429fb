"""Products that a model calls as functions, under casts, against float64 products of the exactly rounded operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

from .casts import PRECISIONS
from .oracle import DTYPES, Oracle, assert_near, rounding_of

Product = Callable[[Tensor, Tensor], Tensor]


class Call(nn.Module):
    """One function call on two activations."""

    def __init__(self, product: Product) -> None:
        super().__init__()
        self.product = product

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.product(a, b)


class Weighted(nn.Module):
    """One function call on an activation and a parameter."""

    def __init__(self, product: Product, weight: Tensor) -> None:
        super().__init__()
        self.product, self.weight = product, nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.weight)


def recipe_of(precision: LayerPrecision, kind: str | None = "matmul", compute_dtype: str = "fp32") -> Recipe:
    rule = Rule(precision=precision, type=kind, required=False)
    return Recipe(name="tried", compute_dtype=compute_dtype, rules=(rule,), engine="emulated")  # pyright: ignore[reportArgumentType]


class BatchOracle:
    """The rounded operands of a batched product: one tensor scale, and tiles that end with each matrix."""

    def __init__(self, precision: LayerPrecision, compute_dtype: str = "fp32", *, is_weight: bool = False) -> None:
        self.oracle, self.is_weight = Oracle(precision, compute_dtype), is_weight

    def __call__(self, x: Tensor, operand: str) -> Tensor:
        """[B, R, C], reduced along C, as [B, R, C'] in float64."""
        cast = self.oracle.precision.operand(operand)
        if not (self.is_weight and operand.endswith("weight")):
            x = x.to(DTYPES[self.oracle.compute_dtype])
        rows = max(cast.granularity.outer, 1) if cast else 1
        padded = F.pad(x.detach(), (0, 0, 0, -x.shape[1] % rows))
        made = self.oracle.values(padded.flatten(0, 1), operand)
        return made.unflatten(0, padded.shape[:2])[:, : x.shape[1]]


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_bmm_of_activations(name: str, compute_dtype: str) -> None:
    torch.manual_seed(0)
    precision = PRECISIONS[name]
    a, b = torch.randn(3, 7, 41).requires_grad_(), torch.randn(3, 41, 19).requires_grad_()
    grad = torch.randn(3, 7, 19)
    model = Call(torch.bmm)
    conversion = convert(model, recipe_of(precision, compute_dtype=compute_dtype))
    with conversion.measured():
        y = model(a, b)
        y.backward(grad)
    assert {row.site for row in conversion.audit().rows} == {"matmul"}
    assert not conversion.audit().uncovered

    values = BatchOracle(precision, compute_dtype)
    near = max(rounding_of(compute_dtype), 1e-5 if precision.accumulator is None else 2e-4)
    fprop = values(a, "fprop_input") @ values(b.mT, "fprop_weight").mT
    assert_near(y.detach(), fprop, near)
    assert_near(a.grad, values(grad, "dgrad_grad_output") @ values(b, "dgrad_weight").mT, near)
    assert_near(b.grad, values(a.mT, "wgrad_input") @ values(grad.mT, "wgrad_grad_output").mT, near)


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_a_weight_for_each_expert(name: str, compute_dtype: str) -> None:
    torch.manual_seed(0)
    precision = PRECISIONS[name]
    x, w, grad = torch.randn(3, 7, 41).requires_grad_(), torch.randn(3, 41, 19), torch.randn(3, 7, 19)
    model = Weighted(torch.bmm, w.clone())
    conversion = convert(model, recipe_of(precision, "grouped_mm", compute_dtype))
    with conversion.measured():
        y = model(x)
        y.backward(grad)
    assert not conversion.audit().uncovered

    values = BatchOracle(precision, compute_dtype, is_weight=True)
    sums = 1e-5 if precision.accumulator is None else 2e-4
    near = max(rounding_of(compute_dtype), sums)
    assert_near(y.detach(), values(x, "fprop_input") @ values(w.mT, "fprop_weight").mT, near)
    assert_near(x.grad, values(grad, "dgrad_grad_output") @ values(w, "dgrad_weight").mT, near)
    # The weight's gradient is not rounded to the compute dtype.
    assert_near(model.weight.grad, values(x.mT, "wgrad_input") @ values(grad.mT, "wgrad_grad_output").mT, sums)


def as_linear(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w)


# Each gives x @ w.T, of x [..., 41] and the weight as it is kept.
SPELLINGS: dict[str, tuple[Product, bool]] = {
    "F.linear": (as_linear, False),
    "matmul": (torch.matmul, True),
    "mm": (torch.mm, True),
    "@": (lambda x, w: x @ w, True),
    "@ t": (lambda x, w: x @ w.t(), False),
    "matmul T": (lambda x, w: torch.matmul(x, w.T), False),
    "left": (lambda x, w: (w @ x.t()).t(), False),
    "left t": (lambda x, w: torch.mm(w.t(), x.t()).t(), True),
    "addmm": (lambda x, w: torch.addmm(x.new_zeros(w.shape[1]), x, w), True),
    "einsum": (lambda x, w: torch.einsum("mk,nk->mn", x, w), False),
    "einsum left": (lambda x, w: torch.einsum("nk,mk->mn", w, x), False),
    "einsum list": (lambda x, w: torch.einsum("mk,nk->mn", [x, w]), False),
    "einsum implicit": (lambda x, w: torch.einsum("mk,kn", x, w), True),
    "einsum ellipsis": (lambda x, w: torch.einsum("...k,nk->...n", x, w), False),
    "tensordot": (lambda x, w: torch.tensordot(x, w, ([1], [1])), False),
    "row": (lambda x, w: torch.stack([row @ w for row in x]), True),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["mxfp8 rceil", "nvfp4-2d", "int8[row]", "fp8-block fp32"])
def test_a_weight_that_a_function_multiplies_is_that_of_a_linear_layer(name: str, spelling: str) -> None:
    torch.manual_seed(0)
    precision = PRECISIONS[name]
    product, is_transposed = SPELLINGS[spelling]
    x, w, grad = torch.randn(8, 41).requires_grad_(), torch.randn(19, 41), torch.randn(8, 19)
    model = Weighted(product, w.t().contiguous() if is_transposed else w.clone())
    conversion = convert(model, recipe_of(precision, None))
    with conversion.measured():
        y = model(x)
        y.backward(grad)
    assert not conversion.audit().uncovered
    assert {row.site for row in conversion.audit().rows} == {"<model>"}

    oracle = Oracle(precision)
    by_rows = spelling == "row"  # one call for each row: scales of a block of rows, and wgrad, are each row's own
    if by_rows and "nvfp4" in name:  # nor is there one scale for the tensor
        return
    want = oracle.values(x, "fprop_input") @ oracle.values(w, "fprop_weight").t()
    assert_near(y.detach(), want)
    assert_near(x.grad, oracle.values(grad, "dgrad_grad_output") @ oracle.transposed_values(w, "dgrad_weight").t())
    dw = model.weight.grad.t() if is_transposed else model.weight.grad
    if not by_rows:
        assert_near(
            dw, oracle.transposed_values(grad, "wgrad_grad_output") @ oracle.transposed_values(x, "wgrad_input").t()
        )
