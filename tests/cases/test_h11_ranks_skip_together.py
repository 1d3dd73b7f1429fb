"""Ranks that each hold a parameter of their own: one overflow is everybody's, and so is the scale."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from mixprec.optim import SGD
from mixprec.specs import LossScale
from mixprec.training import prepare
from tests.distributed.processes import run

OPTIMIZERS = {"torch": torch.optim.SGD, "mixprec": SGD}


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(()))

    def forward(self) -> Tensor:
        return self.p * 1.0


def train(optimizer: str, recipe: str, bad_rank: int) -> list[tuple[Any, ...]]:
    model = One()
    scale = LossScale(kind="dynamic", initial=8.0)
    session = prepare(model, OPTIMIZERS[optimizer](model.parameters(), lr=1.0), recipe, loss_scale=scale)
    told = []
    for bad in (True, False):
        factor = float("inf") if bad and dist.get_rank() == bad_rank else 1.0
        result = session.step(model() * factor)
        told.append((result.applied, model.p.item(), result.loss_scale, result.reason))
    return told


VARIANTS = [
    (optimizer, recipe, bad_rank)
    for optimizer, recipe in (("torch", "fp32"), ("mixprec", "fp32"), ("torch", "fp16"))
    for bad_rank in (0, 1)
]


def train_all() -> list[list[tuple[Any, ...]]]:
    return [train(*variant) for variant in VARIANTS]


@pytest.mark.slow
def test_all_skip_together_and_all_apply_the_next_step() -> None:
    for (_, _, bad_rank), *ranks in zip(VARIANTS, *run(train_all), strict=True):
        for first, second in ranks:
            assert first[:3] == (False, 1.0, 4.0)
            assert second == (True, 0.0, 4.0, "")
        assert "inf in gradient of p" in ranks[bad_rank][0][3]
        assert "gradients of another rank are not finite; loss scale 8 -> 4" in ranks[1 - bad_rank][0][3]
