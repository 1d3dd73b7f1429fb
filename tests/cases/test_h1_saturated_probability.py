"""A probability that a 16-bit sigmoid rounds to one: the loss behind it loses its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mixprec


class Function(nn.Module):
    """Calls the function instead of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.fc(x))


class TwoClasses(nn.Module):
    """A softmax over the logit and zero: the same probability another way."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.fc(x)
        return F.softmax(torch.cat([logits, torch.zeros_like(logits)], -1), -1)[..., :1]


def one_by_one(kind: str) -> nn.Module:
    """A model with weight 1 and bias 0 that gives a probability."""
    model = {"module": nn.Sequential(nn.Linear(1, 1), nn.Sigmoid()), "function": Function(), "softmax": TwoClasses()}[
        kind
    ]
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.fill_(0.0 if name.endswith("bias") else 1.0)
    return model


@pytest.mark.parametrize("kind", ["module", "function", "softmax"])
@pytest.mark.parametrize("engine", ["auto", "emulated"])
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_loss_and_gradient(name: str, engine: str, kind: str) -> None:
    model = one_by_one(kind)
    mixprec.convert(model, mixprec.recipe(name, engine=engine))
    loss = nn.BCELoss()(model(torch.tensor([[10.0]])), torch.tensor([[0.0]]))
    assert abs(loss.item() - 10.0000454) < 0.05
    scale = 2.0**15 if name == "fp16" else 1.0
    (loss * scale).backward()
    bias = next(p for n, p in model.named_parameters() if n.endswith("bias"))
    assert abs(float(bias.grad) / scale - 0.99995) < 0.01


def test_default_scale_skips_once_then_applies() -> None:
    model = one_by_one("module")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    session = mixprec.prepare(model, optimizer, "fp16")
    results = []
    for _ in range(2):
        loss = nn.BCELoss()(model(torch.tensor([[10.0]])), torch.tensor([[0.0]]))
        optimizer.zero_grad()
        results.append(session.step(loss, zero_grad=False))
    assert [r.applied for r in results] == [False, True]
    assert "inf" in str(results[0].reason)
    assert "65504" in str(results[0].reason)
    bias = dict(model.named_parameters())["0.bias"]
    assert abs(float(bias.grad) - 0.99995) < 0.01
