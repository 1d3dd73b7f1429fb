"""Gradients are unscaled before they are clipped, and clipped once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

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


def test_fused_and_unfused_adamw_agree() -> None:
    results = []
    for options in ({"fused": True}, {"fused": False, "foreach": False}, {"foreach": True}):
        model = Two()
        run = session(torch.optim.AdamW(model.parameters(), lr=0.1, **options), model)
        norms = [run.step(model(factor)).grad_norm for factor in (1.0, 0.5, 3.0)]
        assert norms == [5.0, 2.5, 15.0]
        results.append(model.p.detach().clone())
    assert all(torch.allclose(results[0], other, rtol=0, atol=1e-6) for other in results)
