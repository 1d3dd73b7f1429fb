"""A 16-bit weight whose updates are below half of its last place: a master carries them, or it is told."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixprec.training import Session, prepare


class Norm(nn.Module):
    def __init__(self, dtype: torch.dtype, value: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), value, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def train(session: Session, steps: int, gradient: float = 0.1) -> None:
    for _ in range(steps):
        assert session.step(session.model(torch.full((4,), gradient)).float().sum()).applied


@pytest.mark.parametrize(("recipe", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": False}])
def test_a_master_moves_and_the_weight_is_its_rounding(
    recipe: str, dtype: torch.dtype, options: dict[str, bool]
) -> None:
    model = Norm(dtype)
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3, **options), recipe)
    train(session, 100)
    master = session.state_dict()["kept"]["weight"]["master"]
    assert master.tolist() == pytest.approx([0.9] * 4, abs=1e-4)
    assert torch.equal(model.weight, master.to(dtype))
    if dtype == torch.bfloat16:
        assert set(model.weight.tolist()) <= {0.8984375, 0.90234375}


def test_gradients_set_by_hand_take_the_same_way() -> None:
    model = Norm(torch.bfloat16)
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3), "bf16")
    for _ in range(100):
        model.weight.grad = torch.full_like(model.weight, 0.1)
        assert session.step().applied
    assert session.state_dict()["kept"]["weight"]["master"].tolist() == pytest.approx([0.9] * 4, abs=1e-4)


def test_pure_bf16_is_told_within_20_steps() -> None:
    model = Norm(torch.bfloat16)
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3), "bf16-true")
    train(session, 20)
    assert model.weight.tolist() == [1.0] * 4
    (event,) = [e for e in session.events if e.name != "note"]
    assert event.site == "weight"
    assert "0 of 4 elements of weight moved in 20 steps" in event.message
    assert "recipe 'bf16' (fp32 master)" in event.message


def test_weight_decay_alone_that_cannot_move_a_weight_is_told() -> None:
    model = Norm(torch.bfloat16)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1e-4, weight_decay=0.1), "bf16-true")
    train(session, 20, gradient=1e-3)
    assert [e.name for e in session.events if e.name != "note"] == ["update too small"]


@pytest.mark.parametrize(
    ("lr", "gradient", "value"), [(0.1, 0.1, 1.0), (0.0, 0.1, 1.0), (1e-3, 0.0, 1.0), (1e-3, 0.1, 1e-2)]
)
def test_nothing_is_told_of_weights_that_move_or_should_not(lr: float, gradient: float, value: float) -> None:
    model = Norm(torch.bfloat16, value)
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=lr), "bf16-true")
    train(session, 25, gradient)
    assert not session.events
