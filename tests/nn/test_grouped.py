"""A matrix for each group of rows, as the experts of a mixture have: every group is a product of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .casts import PRECISIONS
from .oracle import Oracle, assert_near, rounding_of

NAMES = [
    "e4m3[tensor]",
    "e4m3[row]",
    "mxfp8 rceil",
    "nvfp4-2d",
    "nvfp4 sr rht16",
    "int8[row] sr",
    "e4m3[1x128:fp32]",
    "fp8",
]
ENDS = torch.tensor([5, 5, 12], dtype=torch.int32)
SPANS = ((0, 5), (5, 5), (5, 12))


class Experts(nn.Module):
    """Three experts, [3, K, N] or [3, N, K], by one of several spellings of the same product."""

    def __init__(self, call: Callable[[Tensor, Tensor], Tensor], *, is_transposed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        weight = torch.randn(3, 37, 19)
        self.weight = nn.Parameter(weight.mT.contiguous() if is_transposed else weight)
        self.call, self.is_transposed = call, is_transposed

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


def one_by_one(x: Tensor, w: Tensor) -> Tensor:
    return torch.cat([F.linear(x[i:j], w[e]) for e, (i, j) in enumerate(SPANS)])


def tensor_index(x: Tensor, w: Tensor) -> Tensor:
    return torch.cat([x[i:j] @ w[torch.tensor(e)] for e, (i, j) in enumerate(SPANS)])


SPELLINGS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], bool]] = {
    "F.grouped_mm": (lambda x, w: F.grouped_mm(x, w, offs=ENDS), False),
    "torch._grouped_mm": (lambda x, w: torch._grouped_mm(x, w, offs=ENDS), False),
    "transposed": (lambda x, w: F.grouped_mm(x, w.mT, offs=ENDS), True),
    "linear": (one_by_one, True),
    "matmul": (tensor_index, False),
}


def low(precision: LayerPrecision, compute_dtype: Any = "fp32", kind: str | None = "grouped_mm") -> Recipe:
    return Recipe(
        name="low", rules=(Rule(type=kind, precision=precision),), compute_dtype=compute_dtype, engine="emulated"
    )


@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_each_group_is_a_product_of_its_own(name: str, spelling: str, compute_dtype: str) -> None:
    call, is_transposed = SPELLINGS[spelling]
    model = Experts(call, is_transposed=is_transposed)
    w = model.weight.detach().clone() if is_transposed else model.weight.detach().mT.clone()  # [3, N, K]
    x, grad = torch.randn(12, 37).requires_grad_(), torch.randn(12, 19)
    precision = PRECISIONS[name]
    conversion = convert(model, low(precision, compute_dtype))
    with conversion.measured():
        y = model(x)
        y.backward(grad.to(y.dtype))
    audit = conversion.audit()
    assert not audit.uncovered
    assert {row.site for row in audit.rows} == {"<model>"}
    if not precision.fprop_input.transform:  # which pads
        assert audit.flops == 3 * 2 * 12 * 37 * 19

    oracle, near = Oracle(precision, compute_dtype), rounding_of(compute_dtype)
    dw = model.weight.grad if is_transposed else model.weight.grad.mT
    for expert, (i, j) in enumerate(SPANS):
        rows, gradient = x.detach()[i:j], grad[i:j]
        if i == j:
            assert not dw[expert].any()
            continue
        fprop = oracle.values(rows, "fprop_input") @ oracle.values(w[expert], "fprop_weight").t()
        assert_near(y.detach()[i:j], fprop, near)
        dgrad = oracle.values(gradient, "dgrad_grad_output") @ oracle.transposed_values(w[expert], "dgrad_weight").t()
        assert_near(x.grad[i:j], dgrad, near)
        wgrad = (
            oracle.transposed_values(gradient, "wgrad_grad_output") @ oracle.transposed_values(rows, "wgrad_input").t()
        )
        assert_near(dw[expert], wgrad)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_other_forms_of_grouped_mm(name: str) -> None:
    """Batches, and groups of columns, are torch's where nothing is cast, and have one rounding in 16 bits."""
    ends = torch.tensor([3, 7, 12], dtype=torch.int32)
    calls: list[tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = [
        (lambda a, b: F.grouped_mm(a, b), ((3, 5, 8), (3, 8, 4))),
        (lambda a, b: F.grouped_mm(a, b, offs=ends), ((5, 12), (12, 4))),
        (lambda a, b: F.grouped_mm(a, b, offs=ends), ((3, 5, 8), (8, 12))),
    ]

    class Call(nn.Module):
        def __init__(self, call: Callable[..., Tensor]) -> None:
            super().__init__()
            self.call = call

        def forward(self, *operands: Tensor) -> Tensor:
            return self.call(*operands)

    for call, shapes in calls:
        operands = [torch.randn(s).bfloat16().float() for s in shapes]
        model = Call(call)
        conversion = convert(model, recipe(name, engine="emulated"))
        with conversion.measured():
            y = model(*operands)
        assert_near(y, call(*operands).double(), {"bf16": 2.0**-8, "fp16": 2.0**-10}.get(name, 1e-5))
        assert not conversion.audit().uncovered
        assert conversion.audit().share(name) == 1.0


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_rule_without_type_reaches_experts_and_one_for_linear_layers_does_not(spelling: str) -> None:
    call, is_transposed = SPELLINGS[spelling]
    x = torch.randn(12, 40)
    for kind, format in ((None, "mxfp8"), ("grouped_mm", "mxfp8"), ("Linear", "fp32")):
        model = Experts(call, is_transposed=is_transposed)
        shape = (3, 24, 40) if is_transposed else (3, 40, 24)  # torch's own kernel wants 16 bytes
        model.weight = nn.Parameter(torch.randn(shape))
        conversion = convert(model, low(LayerPrecision.uniform("mxfp8"), kind=kind))
        with conversion.measured():
            model(x)
        assert {row.format for row in conversion.audit().rows} == {format}, kind


def test_a_matrix_for_each_token() -> None:
    """Experts that are gathered for each token stay weights, on either side."""

    class Gathered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 19, 37))

        def forward(self, x: Tensor, chosen: Tensor) -> Tensor:
            left = torch.bmm(self.weight[chosen], x.unsqueeze(-1)).squeeze(-1)
            right = torch.bmm(x.unsqueeze(1), torch.index_select(self.weight, 0, chosen).mT).squeeze(1)
            torch.testing.assert_close(left, right)
            return left + right

    model, x, chosen = Gathered(), torch.randn(6, 37).requires_grad_(), torch.tensor([0, 2, 2, 1, 0, 2])
    precision = PRECISIONS["mxfp8 rceil"]
    weight = model.weight.detach().clone()
    conversion = convert(model, low(precision, kind=None))
    with conversion.measured():
        y = model(x, chosen)
        y.sum().backward()
    assert conversion.audit().share("mxfp8 rceil") == 1.0
    oracle = Oracle(precision)
    for row, expert in enumerate(chosen.tolist()):
        fprop = oracle.values(x[row : row + 1], "fprop_input") @ oracle.values(weight[expert], "fprop_weight").t()
        assert_near(y.detach()[row : row + 1], 2 * fprop)
    assert model.weight.grad is not None


def test_codes_of_experts_are_kept(count_casts: Any) -> None:
    model = Experts(SPELLINGS["F.grouped_mm"][0]).requires_grad_(False)
    convert(model, low(LayerPrecision.uniform("mxfp8")))
    x = torch.randn(12, 37, requires_grad=True)
    for _ in range(2):
        model(x).sum().backward()
    with count_casts() as casts:
        model(x).sum().backward()
    assert casts.of_shape(19, 37) == 0
    assert casts.of_shape(5, 37) == 1
    with torch.no_grad():
        model.weight.mul_(2.0)
    with count_casts() as casts:
        y = model(x)
    assert casts.of_shape(19, 37) == 3
    assert_near(y.detach(), 2 * y.detach().double() / 2)
