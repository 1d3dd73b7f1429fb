"""Weights that change inside one outer autocast region: every forward pass sees the weights of its step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.training import prepare


@pytest.mark.parametrize("evaluate", [False, True])
@pytest.mark.parametrize("recipe", ["bf16", "fp32", "fp16"])
def test_losses_follow_the_weights(recipe: str, evaluate: bool) -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), recipe, loss_scale="none")
    losses = []
    with torch.autocast("cpu", torch.bfloat16):
        if evaluate:
            with torch.no_grad():
                assert model(torch.ones(1, 2)).item() == 2.0
        for _ in range(3):
            loss = model(torch.ones(1, 2)).sum()
            losses.append(loss.item())
            assert session.step(loss).applied
    assert losses == [2.0, 0.0, -2.0]
    assert model.weight.tolist() == [[-2.0, -2.0]]
