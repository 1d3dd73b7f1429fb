"""Moments of 16 and 8 bits train as those of fp32 do at beta2 = 0.999; second moments rounded to nearest do not."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

import mixprec.optim
from mixprec.specs import Moments

from .test_bf16_weights import digits

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("moments")]

STEPS, BATCH, TRAINING = 3000, 64, 1400


@functools.cache
def loss_of(kind: str, *, to_nearest: bool = False) -> float:
    """Training loss of the digits MLP after AdamW; ``to_nearest``: both moments are brought to bf16 after each step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    adam = mixprec.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, moments=Moments(kind=kind, small=0))
    images, labels = digits()
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        i = torch.randint(0, TRAINING, (BATCH,), generator=generator)
        adam.zero_grad()
        functional.cross_entropy(model(images[i]), labels[i]).backward()
        adam.step()
        for state in adam.state.values() if to_nearest else ():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())
    with torch.no_grad():
        return float(functional.cross_entropy(model(images[:TRAINING]), labels[:TRAINING]))


@pytest.mark.parametrize("kind", ["bf16", "e4m3", "dynamic"])
def test_losses_are_those_of_fp32(kind: str) -> None:
    loss = loss_of(kind)
    print(f"{kind}: {loss:.5f}, fp32 {loss_of('fp32'):.5f}")
    assert loss < 1.25 * loss_of("fp32")


def test_second_moments_to_nearest_cost() -> None:
    loss = loss_of("fp32", to_nearest=True)
    print(f"bf16 to nearest: {loss:.5f}, fp32 {loss_of('fp32'):.5f}")
    assert loss > 1.4 * loss_of("fp32")
