"""A 16-bit weight whose updates are below half of its last place, under every way to keep it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

import mixprec.optim
from mixprec.optim import keep_weights

# What each can give of the right value, 0.9: exact ways, 16 bits, and four times the noise of 100 roundings.
ALLOWED = {"master": 1e-4, "split": 1e-4, "kahan": 2e-3, "stochastic": 0.07}


@pytest.mark.parametrize("make", [torch.optim.Adam, mixprec.optim.AdamW])
@pytest.mark.parametrize("kind", [*ALLOWED, "true"])
def test_a_hundred_steps_of_a_thousandth(kind: str, make: type) -> None:
    p = Parameter(torch.ones(4, dtype=torch.bfloat16))
    kept = keep_weights(make([p], lr=1e-3, weight_decay=0.0), kind)
    for _ in range(100):
        p.grad = torch.full_like(p, 0.1)
        kept.apply(1.0)
    if kind == "true":
        assert p.tolist() == [1.0] * 4
        return
    full = kept.full_weight(p)
    assert full.tolist() == pytest.approx([0.9] * 4, abs=ALLOWED[kind])
    if kind != "stochastic":
        assert torch.equal(p, full.bfloat16())


@pytest.mark.parametrize("make", [torch.optim.Adam, mixprec.optim.AdamW])
def test_stochastic_weights_are_right_in_the_mean(make: type) -> None:
    p = Parameter(torch.ones(4096, dtype=torch.bfloat16))
    kept = keep_weights(make([p], lr=1e-3, weight_decay=0.0), "stochastic")
    for _ in range(100):
        p.grad = torch.full_like(p, 0.1)
        kept.apply(1.0)
    assert p.mean(dtype=torch.float64).item() == pytest.approx(0.9, abs=2e-3)
