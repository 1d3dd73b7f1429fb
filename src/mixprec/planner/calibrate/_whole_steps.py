"""What operators take more within a training step than alone, from the steps of small models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from ...hardware import Grid, Measured
from ...optim import AdamW
from .._inventory import Inventory
from ..cost import Assignment, estimate_time
from ..trace import take_inventory
from ._as_hardware import as_hardware
from ._products import CONVOLUTION_PRODUCTS
from ._stopwatch import Stopwatch

#: Makes of a model and its optimizer what takes a loss and updates the model.
Stepper = Callable[[nn.Module, Optimizer], Callable[[Tensor], object]]


def plain_steps(model: nn.Module, optimizer: Optimizer) -> Callable[[Tensor], object]:
    """A step without a session: backward pass and update."""

    def step(loss: Tensor) -> None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


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


class _Convolutional(nn.Module):
    """A residual block of convolutions, one of which halves the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.halving = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for size in (channels, channels, 2 * channels))

    def forward(self, x: Tensor) -> Tensor:
        """[images, 1, height, width] to [images, 2 * channels, height / 2, width / 2]."""
        stem, first, halving = self.norms
        x = F.relu(stem(self.stem(x)))
        x = F.relu(x + first(self.first(x)))
        return F.relu(halving(self.halving(x)) + self.shortcut(x))


def fit_whole_steps(watch: Stopwatch, measured: Measured, stepper: Stepper) -> Measured:
    """Correct what was measured so that the steps of small models are met.

    Blocks of linears and attention at three sizes give the seconds a call and the factor on all else (least squares of
    relative errors, neither below what an operator takes alone); then two of convolutions give theirs.

    Args:
        watch: measures.
        measured: with no correction yet.
        stepper: makes the steps.
    """
    dense = [_row(watch, measured, job, stepper) for job in _dense_models()]
    call, cold = _fit([(row.calls / row.seconds, row.alone / row.seconds) for row in dense])
    measured = replace(measured, call=call, cold=cold)
    rows = [_row(watch, measured, job, stepper) for job in _convolutional_models()]
    more, factor = _fit([row.convolutional for row in rows])
    scaled = {name: _slower(measured.products[name], more, factor) for name in CONVOLUTION_PRODUCTS}
    return replace(measured, products={**measured.products, **scaled})


@dataclass(frozen=True)
class _Row:
    """A step: as measured, as predicted, the convolutions' part of that, its calls, and the convolutions'."""

    seconds: float
    alone: float
    convolutions: float
    calls: int
    products: int

    @property
    def convolutional(self) -> tuple[float, float]:
        """The convolutions' calls and predicted seconds over what the rest of the step leaves them."""
        left = max(self.seconds - self.alone + self.convolutions, 0.1 * self.seconds)
        return self.products / left, self.convolutions / left


def _row(watch: Stopwatch, measured: Measured, job: tuple[nn.Module, Tensor], stepper: Stepper) -> _Row:
    step, inventory = _step(*job, stepper)
    hardware = as_hardware("this-machine", measured, is_validated=False)
    time = estimate_time(inventory, Assignment(precisions={}), hardware)
    kinds = {product.site: product.kind for product in inventory.products}
    return _Row(
        seconds=watch.seconds(step)[0],
        alone=time.seconds,
        convolutions=sum(term.seconds for term in time.terms if term.engine and kinds[term.site].startswith("Conv")),
        calls=sum(p.calls for p in inventory.products) + sum(max(t.calls, 1) for t in inventory.traffic),
        products=sum(p.calls for p in inventory.products if p.kind.startswith("Conv")),
    )


def _fit(rows: list[tuple[float, float]]) -> tuple[float, float]:
    """(call, cold) of rows (calls, alone) over the measured seconds, so that call * calls + cold * alone is near 1.

    Example:
        >>> [round(value, 6) for value in _fit([(1000.0, 0.5), (100.0, 0.8)])]
        [0.0004, 1.2]
    """
    found = torch.linalg.lstsq(torch.tensor(rows, dtype=torch.float64), torch.ones(len(rows), 1, dtype=torch.float64))
    call, cold = (float(value) for value in found.solution.flatten())
    if cold < 1:  # what is left is all calls
        return max(0.0, _mean((1 - alone) / calls for calls, alone in rows)), 1.0
    if call < 0:
        return 0.0, max(1.0, 1 / _mean(alone for _, alone in rows))
    return call, cold


def _slower(grid: Grid, more: float, factor: float) -> Grid:
    return replace(grid, seconds=tuple(factor * seconds + more for seconds in grid.seconds))


def _dense_models() -> tuple[tuple[nn.Module, Tensor], ...]:
    torch.manual_seed(0)
    return (
        (nn.Sequential(_Mixer(32), _Mixer(32)), torch.randn(4, 32, 32)),
        (nn.Sequential(_Mixer(64), _Mixer(64)), torch.randn(16, 64, 64)),
        (nn.Sequential(_Mixer(128), _Mixer(128)), torch.randn(8, 64, 128)),
    )


def _convolutional_models() -> tuple[tuple[nn.Module, Tensor], ...]:
    torch.manual_seed(0)
    return (_Convolutional(12), torch.randn(48, 1, 8, 8)), (_Convolutional(32), torch.randn(64, 1, 8, 8))


def _step(model: nn.Module, x: Tensor, stepper: Stepper) -> tuple[Callable[[], object], Inventory]:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    def adamw(parameters: Iterable[nn.Parameter]) -> Optimizer:
        return AdamW(parameters, lr=1e-4)

    inventory = take_inventory(model, loss, x, optimizer=adamw)
    update = stepper(model, adamw(model.parameters()))
    return lambda: update(loss(model, x)), inventory


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
