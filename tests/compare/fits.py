"""A workload of milliseconds: two linear layers that learn a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mixprec.compare import Comparison, Workload, WorkloadSource
from mixprec.specs import recipe


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 32)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(torch.tanh(self.hidden(x))))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return (model(x).float() - y).square().mean()


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1000 * seed + step))
    return x, x.sum(1, keepdim=True)


def fit(seed: int, device: str, steps: int = 6, **changes: Any) -> Workload:
    settings: dict[str, Any] = {
        "model": Line(),
        "loss": loss,
        "batches": lambda step: batch_of(seed, step),
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
        "steps": steps,
        "evaluate": lambda model: {"loss": loss(model, batch_of(99, 0)).item()},
        "tokens_per_step": 64,
    }
    return Workload(**(settings | changes))


def source(function: Callable[..., object] = fit, **options: Any) -> WorkloadSource:
    return WorkloadSource(name="fit", function=function, options=options)


def comparison(*names: str, seeds: tuple[int, ...] = (0,), **changes: Any) -> Comparison:
    settings: dict[str, Any] = {"source": source(), "recipes": tuple(recipe(name) for name in names), "seeds": seeds}
    return Comparison(**(settings | changes))
