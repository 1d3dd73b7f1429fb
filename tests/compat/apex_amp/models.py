"""What the tests of ``apex_amp`` train."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mixprec.compat import apex_amp as amp

INPUT = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))
TARGET = torch.tensor([0, 1, 2, 1])
LEVELS = ("O0", "O1", "O2", "O3")


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.LayerNorm(8),
        nn.Linear(8, 3),
    )  # fmt: skip


class Weights(nn.Module):
    """Parameters alone; its output is their weighted sum."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(values))

    def forward(self, *factors: float) -> Tensor:
        return (self.p.float() * torch.tensor(factors)).sum()


def backward(loss: Tensor, optimizer: torch.optim.Optimizer, **options: int) -> None:
    with amp.scale_loss(loss, optimizer, **options) as scaled_loss:  # pyright: ignore[reportArgumentType]
        scaled_loss.backward()


def scale(optimizer: torch.optim.Optimizer, loss_id: int = 0) -> float:
    return amp.state_dict(optimizer)[f"loss_scaler{loss_id}"]["loss_scale"]
