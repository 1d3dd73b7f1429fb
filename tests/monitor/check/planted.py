"""Models in which something is planted, each with its healthy twin."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Told(nn.Module):
    """A linear layer, and what a function makes of its output."""

    def __init__(self, after: Callable[..., Tensor], features: int = 8, **buffers: Tensor) -> None:
        super().__init__()
        self.layer = nn.Linear(features, features)
        self.after = After(after, buffers)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.layer(x))


class After(nn.Module):
    def __init__(self, function: Callable[..., Tensor], buffers: dict[str, Tensor]) -> None:
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def batch(features: int = 8, rows: int = 4, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.linspace(-1, 1, rows * features).reshape(rows, features).to(dtype)


def loss_of(model: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    return lambda: model(x).float().square().mean()


def autocast_loss(model: nn.Module, x: Tensor, dtype: torch.dtype) -> Callable[[], Tensor]:
    def step() -> Tensor:
        with torch.autocast("cpu", dtype):
            return model(x).float().square().mean()

    return step


class H1(nn.Module):
    """Case H1: one linear layer of weight 1 whose sigmoid goes into BCELoss."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        nn.init.ones_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return self.sigmoid(self.linear(x))


class H2(nn.Module):
    """Case H2: scores and a mask of the lowest finite number."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("mask", mask)
        self.softmax = Softmax()

    def forward(self, scores: Tensor) -> Tensor:
        return self.softmax(scores * self.scale + self.mask)


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, -1)


class Rotary(nn.Module):
    """Case H9: positions times inverse frequencies."""

    def __init__(self, length: int = 4096, dim: int = 8) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim // 2))
        self.length = length
        self.register_buffer("inv_freq", 1.0 / 1e4 ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self) -> Tensor:
        angles = torch.outer(torch.arange(self.length).type_as(self.inv_freq), self.inv_freq)
        return angles.cos() * self.weight
