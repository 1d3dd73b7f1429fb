"""A linear layer under every kind of cast, against float64 products of the exactly rounded operands."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

from .casts import PRECISIONS
from .oracle import Oracle, assert_near, rounding_of

SHAPES = [(5, 37, 10), (33, 50, 17), (48, 160, 144), (1, 1, 1), (129, 16, 3)]


def recipe_of(precision: LayerPrecision, compute_dtype: str = "fp32") -> Recipe:
    return Recipe(name="tried", compute_dtype=compute_dtype, rules=(Rule(precision=precision),), engine="emulated")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRECISIONS)
def test_three_products_of_rounded_operands(name: str, shape: tuple[int, int, int]) -> None:
    check(PRECISIONS[name], "fp32", shape)


@pytest.mark.parametrize("compute_dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", PRECISIONS)
def test_a_16_bit_compute_dtype_rounds_before_and_after(name: str, compute_dtype: str) -> None:
    check(PRECISIONS[name], compute_dtype, (33, 50, 17))


def check(precision: LayerPrecision, compute_dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(k, n))
    x, grad = torch.randn(m, k).mul_(torch.randn(m, k).exp()), torch.randn(m, n)
    w, b = layer[0].weight.detach().clone(), layer[0].bias.detach().clone()
    convert(layer, recipe_of(precision, compute_dtype), seed=7)
    leaf = x.clone().requires_grad_()
    y = layer(leaf)
    y.backward(grad)

    oracle = Oracle(precision, compute_dtype, seed=7)
    values, transposed = oracle.values, oracle.transposed_values
    want = values(x, "fprop_input") @ values(w, "fprop_weight").t()
    want += b.to({"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[compute_dtype]).double()
    near, sums = rounding_of(compute_dtype), 1e-5 if precision.accumulator is None else 2e-4
    assert_near(y.detach(), want, max(near, sums))
    dx = values(grad, "dgrad_grad_output") @ transposed(w, "dgrad_weight").t()
    assert_near(leaf.grad, dx, max(near, sums))
    dw = transposed(grad, "wgrad_grad_output") @ transposed(x, "wgrad_input").t()
    assert_near(layer[0].weight.grad, dw, sums)
    assert_near(layer[0].bias.grad, grad.to(y.dtype).double().sum(0), max(near, 1e-5))
