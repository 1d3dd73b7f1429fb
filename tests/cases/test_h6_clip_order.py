"""Gradients are unscaled before they are clipped, and clipped once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import mixprec.optim
from mixprec.training import Session, prepare


class Two(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(2, dtype=dtype))

    def forward(self, factor: float = 1.0) -> Tensor:
        p = self.p.float()
        return (3 * p[0] + 4 * p[1]) * factor


def session(optimizer: torch.optim.Optimizer, model: Two, recipe: str = "fp32") -> Session:
    return prepare(model, optimizer, recipe, loss_scale=1024.0, clip_norm=1.0)


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(
    ("recipe", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_the_norm_is_that_of_the_true_gradient(parts: int, recipe: str, dtype: torch.dtype) -> None:
    model = Two(dtype)
    run = session(torch.optim.SGD(model.parameters(), lr=0.1), model, recipe)
    for _ in range(parts):
        run.backward(model(1 / parts))
    assert run.step().grad_norm == 5.0
    weight = run.state_dict()["kept"].get("p", {"master": model.p})["master"]
    assert weight.tolist() == pytest.approx([0.94, 0.92], abs=1e-5)


@pytest.mark.parametrize("kind", [torch.optim.SGD, mixprec.optim.SGD])
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16"])
def test_a_step_with_its_loss_equals_backward_and_step(recipe: str, kind: type[torch.optim.Optimizer]) -> None:
    weights = []
    for together in (True, False):
        model = Two(torch.float32)
        run = session(kind(model.parameters(), lr=0.1), model, recipe)
        if together:
            result = run.step(model())
        else:
            run.backward(model())
            result = run.step(zero_grad=False)
            assert model.p.grad is not None
            assert model.p.grad[0].item() / model.p.grad[1].item() == pytest.approx(0.75)
        assert result.grad_norm == 5.0
        weights.append(model.p.tolist())
    assert weights[0] == weights[1] == pytest.approx([0.94, 0.92], abs=1e-5)


def test_gradients_seen_after_a_step_with_its_loss_are_true() -> None:
    model = Two()
    run = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", loss_scale=1024.0)
    run.step(model(), zero_grad=False)
    assert model.p.grad.tolist() == [3.0, 4.0]


def test_two_losses_by_name_are_clipped_together() -> None:
    model = Two()
    scales = {"loss": 1024.0, "other": 2.0**-4}
    run = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", loss_scale=scales, clip_norm=1.0)
    run.backward(3 * model.p[0])
    run.backward(4 * model.p[1], name="other")
    assert run.step().grad_norm == 5.0
    assert model.p.tolist() == pytest.approx([0.94, 0.92], abs=1e-5)


def test_several_losses_are_clipped_together() -> None:
    model = Two()
    run = session(torch.optim.SGD(model.parameters(), lr=0.1), model)
    run.backward(3 * model.p[0])
    result = run.step(4 * model.p[1])
    assert result.grad_norm == 5.0
    assert model.p.tolist() == pytest.approx([0.94, 0.92], abs=1e-5)


def test_a_small_gradient_is_not_clipped() -> None:
    model = Two()
    run = session(torch.optim.SGD(model.parameters(), lr=0.1), model)
    assert run.step(model(0.1)).grad_norm == pytest.approx(0.5)
    assert model.p.tolist() == pytest.approx([0.97, 0.96], abs=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_fused_and_unfused_adamw_agree(parts: int) -> None:
    results = []
    for options in ({"fused": True}, {"fused": False, "foreach": False}, {"foreach": True}, None):
        model = Two()
        own = [{"lr": 0.1, **options}] if options is not None else []
        adamw = torch.optim.AdamW(model.parameters(), **own[0]) if own else mixprec.optim.AdamW(model.parameters(), 0.1)
        run = session(adamw, model)
        norms = []
        for factor in (1.0, 0.5, 3.0):
            for _ in range(parts - 1):
                run.backward(model(factor / parts))
            norms.append(run.step(model(factor / parts)).grad_norm)
        assert norms == [5.0, 2.5, 15.0]
        results.append(model.p.detach().clone())
    assert all(torch.allclose(results[0], other, rtol=0, atol=1e-6) for other in results)
