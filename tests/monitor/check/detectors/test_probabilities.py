"""Case H1 seen before training, its other ways in, and the healthy forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.monitor import Preflight, check_step
from mixprec.training import prepare
from tests.monitor.check.planted import H1

BF16, FP16 = torch.bfloat16, torch.float16
NAME = "probabilities into a loss"
TEN, ZERO = torch.full((1, 1), 10.0), torch.zeros(1, 1)


def named(found: Preflight) -> list[tuple[str, str]]:
    return [(f.severity, f.name) for f in found if f.name == NAME]


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "bf16-true"])
def test_h1_under_a_recipe_names_the_loss_and_the_sigmoid_and_suggests_logits(recipe: str) -> None:
    model = H1()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    finding = session.check(lambda: nn.BCELoss()(model(TEN), ZERO))[0]
    assert (finding.name, finding.severity) == (NAME, "warning")  # the recipe computes them in fp32: loss 9.9996
    assert finding.site == "<loss> (binary_cross_entropy)"
    assert "fed by sigmoid (sigmoid) at tests/monitor/check/planted.py:" in finding.message
    assert "BCEWithLogitsLoss" in finding.remedy


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_h1_under_stock_autocast_and_in_16_bits_is_a_fault(dtype: torch.dtype) -> None:
    model, pure = H1(), H1().to(dtype)

    def autocast() -> Tensor:
        with torch.autocast("cpu", dtype):
            return nn.BCELoss()(model(TEN).float(), ZERO)

    for found in (
        check_step(model, autocast),
        check_step(pure, lambda: nn.BCELoss()(pure(TEN.to(dtype)), ZERO.to(dtype)).float()),
    ):
        (fault,) = [f for f in found.faults if f.name == NAME]
        assert fault.evidence["share of exact 0 or 1"] == 1.0
        assert fault.evidence["dtype"] == ("bf16" if dtype == BF16 else "fp16")


@pytest.mark.parametrize(
    "loss",
    [
        lambda p: -torch.log(p).mean(),
        lambda p: -torch.log(1 - p).mean(),
        lambda p: -torch.log(p.clamp(min=1e-6)).mean(),
        lambda p: F.nll_loss(torch.log(torch.cat([p, 1 - p], 1)), torch.tensor([0])),
        lambda p: -torch.log(p.float()).mean(),
        lambda p: F.binary_cross_entropy(p.reshape(-1).float(), torch.ones(1)),
    ],
)
def test_other_ways_into_it(loss: Callable[[Tensor], Tensor]) -> None:
    model = H1().bfloat16()
    (told,) = named(check_step(model, lambda: loss(model(-TEN.bfloat16())).float()))
    assert told[0] == "fault"


def test_log_of_a_softmax_in_16_bits() -> None:
    model = nn.Linear(4, 4).bfloat16()
    x = torch.linspace(-1, 1, 16).reshape(4, 4).bfloat16()
    found = check_step(model, lambda: F.nll_loss(F.softmax(model(x), -1).log(), torch.arange(4)).float())
    assert named(found) == [("fault", NAME)]
    assert "log_softmax" in found[0].remedy


@pytest.mark.parametrize(
    "loss",
    [
        lambda z: F.binary_cross_entropy_with_logits(z, torch.zeros_like(z)),
        lambda z: F.cross_entropy(torch.cat([z, -z], 1), torch.tensor([0])),
        lambda z: F.nll_loss(F.log_softmax(torch.cat([z, -z], 1), -1), torch.tensor([0])),
        lambda z: torch.sigmoid(z).square().mean(),
        lambda z: -F.logsigmoid(z).mean(),
    ],
)
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16"])
def test_healthy_twins(recipe: str, loss: Callable[[Tensor], Tensor]) -> None:
    model = nn.Linear(1, 1)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    assert named(session.check(lambda: loss(model(torch.ones(1, 1))))) == []


def test_fp32_probabilities_are_told_only_where_they_saturate() -> None:
    model = H1()
    assert len(check_step(model, lambda: nn.BCELoss()(model(TEN), ZERO))) == 0
    found = check_step(model, lambda: nn.BCELoss()(model(TEN * 2), ZERO))
    assert named(found) == [("warning", NAME)]
    entropy = nn.Linear(4, 4)

    def step() -> Tensor:
        p = F.softmax(entropy(torch.ones(1, 4)), -1)
        return -(p * p.log()).sum()

    assert len(check_step(entropy, step)) == 0
