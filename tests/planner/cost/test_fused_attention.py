"""What fused attention moves on a device: its operands and its output, never the scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.hardware import find
from mixprec.planner import Inventory, Product, StepTime, estimate_time, take_inventory
from mixprec.specs import recipe

HEADS, LENGTH, WIDTH = 8, 4096, 64
OPERAND = HEADS * LENGTH * WIDTH * 2  # bytes in bf16
#: Operands and results that are not scores. Gradients of weights, which no attention has, are fp32; so is "wgrad" here.
MOVED = {("qk", "fprop"): 2, ("pv", "fprop"): 2, ("pv", "dgrad"): 2, ("qk", "dgrad"): 2}


def sizes(kind: str, gemm: str) -> tuple[int, int, int]:
    if (kind, gemm) in (("qk", "fprop"), ("pv", "dgrad")):
        return LENGTH, LENGTH, WIDTH
    return LENGTH, WIDTH, LENGTH


def attention(kind: str, gemm: str) -> Product:
    m, n, k = sizes(kind, gemm)
    return Product(site=f"a.{kind}", kind=kind, gemm=gemm, batch=HEADS, m=m, n=n, k=k)


def step(products: tuple[Product, ...], device: str = "h100-sxm") -> StepTime:
    inventory = Inventory(products=products, traffic=(), parameters=())
    return estimate_time(inventory, recipe("bf16"), find(device))


def test_scores_go_through_no_memory() -> None:
    for (kind, gemm), operands in MOVED.items():
        (term,) = step((attention(kind, gemm),)).terms
        assert term.bytes == operands * OPERAND, (kind, gemm)


def test_weights_of_attention_move_their_gradient_and_one_operand() -> None:
    for kind in ("qk", "pv"):
        (term,) = step((attention(kind, "wgrad"),)).terms
        assert term.bytes == OPERAND + 2 * OPERAND


def test_a_plain_product_of_these_sizes_moves_its_result() -> None:
    plain = Product(site="a", kind="matmul", gemm="fprop", batch=HEADS, m=LENGTH, n=LENGTH, k=WIDTH)
    (term,) = step((plain,)).terms
    assert term.bytes == 2 * OPERAND + HEADS * LENGTH * LENGTH * 2


def test_long_attention_is_bound_by_its_products() -> None:
    products = tuple(attention(kind, gemm) for kind in ("qk", "pv") for gemm in ("fprop", "dgrad", "wgrad"))
    assert {term.bound for term in step(products).terms} == {"compute"}


def test_a_traced_model_moves_no_scores() -> None:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        q = model(x).view(2, 64, 4, 16).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q).square().mean()

    inventory = take_inventory(nn.Linear(64, 64), loss, torch.randn(2, 64, 64))
    time = estimate_time(inventory, recipe("fp32"), find("h100-sxm"))
    moved = [term.bytes for term in time.terms if term.site.endswith(("qk", "pv"))]
    assert moved
    assert sum(moved) == 14 * (2 * 4 * 64 * 16 * 4)  # seven products of two operands each, or of one and a result
