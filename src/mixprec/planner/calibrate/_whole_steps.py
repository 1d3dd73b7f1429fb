"""What operators take more within a training step than alone, from the steps of small models."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...hardware import Measured
from .._inventory import Inventory
from ..cost import Assignment, estimate_time
from ..trace import take_inventory
from ._as_hardware import as_hardware
from ._stopwatch import Stopwatch


class _Mixer(nn.Module):
    """A pre-norm residual block of linears, GELU and attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, width] to the same shape."""
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, time, width))
        return x + self.narrow(F.gelu(self.wide(x)))


def _convolutional(channels: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers)


def fit_whole_steps(watch: Stopwatch, measured: Measured) -> tuple[float, float]:
    """Fit seconds a call and a factor on all else, so that the steps of the small models are met.

    Least squares of relative errors; neither may be below what an operator takes alone.

    Args:
        watch: measures.
        measured: with no correction yet.

    Returns:
        ``Measured.call`` and ``Measured.cold``.
    """
    rows: list[tuple[float, float]] = []
    for model, x in _models():
        step, inventory = _step(model, x)
        seconds = watch.seconds(step)
        calls = sum(p.calls for p in inventory.products) + sum(max(t.calls, 1) for t in inventory.traffic)
        hardware = as_hardware("this-machine", measured, is_validated=False)
        alone = estimate_time(inventory, Assignment(precisions={}), hardware).seconds
        rows.append((calls / seconds, alone / seconds))
    found = torch.linalg.lstsq(torch.tensor(rows, dtype=torch.float64), torch.ones(len(rows), 1, dtype=torch.float64))
    call, cold = (float(value) for value in found.solution.flatten())
    if cold < 1:  # the rest is all calls
        call, cold = _mean((1 - alone) / calls for calls, alone in rows), 1.0
    if call < 0:
        call, cold = 0.0, max(1.0, 1 / _mean(alone for _, alone in rows))
    return max(call, 0.0), cold


def _models() -> tuple[tuple[nn.Module, Tensor], ...]:
    torch.manual_seed(0)
    return (
        (nn.Sequential(_Mixer(32), _Mixer(32)), torch.randn(4, 32, 32)),
        (nn.Sequential(_Mixer(128), _Mixer(128)), torch.randn(8, 64, 128)),
        (_convolutional(8), torch.randn(8, 8, 8, 8)),
        (_convolutional(24), torch.randn(48, 24, 8, 8)),
    )


def _step(model: nn.Module, x: Tensor) -> tuple[Callable[[], None], Inventory]:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-4)

    inventory = take_inventory(model, loss, x, optimizer=adamw)
    optimizer = adamw(model.parameters())

    def step() -> None:
        loss(model, x).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, inventory


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
