"""Guarded training runs of a second, with faults that come by themselves, for processes that are killed in them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import mixprec.training.guarding._guarded as guarded_module
import mixprec.training.guarding._snapshots as snapshots_module
from mixprec.compare import Trained, Training, Workload, train
from mixprec.guard import Escalate, Guard, Rewind, Skip, Snapshots
from mixprec.specs import recipe
from tests.compare.fits import batch_of, fit, loss, source

STEPS = 110
_SKIPPED = {20: float("nan"), 50: 30.0, 51: 30.0, 84: float("nan")}
_IN_A_ROW = {number: float("nan") for number in range(70, 75)}
SETTINGS = Guard(
    skip=Skip(limit=2),
    rewind=Rewind(limit=100, batches=8),
    escalate=Escalate(limit=1),
    snapshots=Snapshots(every=4, quiet=4, disk_every=8),
)


@dataclass
class Flips:
    """A loss whose process has its memory damaged: a weight is, in some of its steps."""

    at: Sequence[int]
    calls: int = field(default=0)

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if model.training and torch.is_grad_enabled():
            self.calls += 1
            if self.calls in self.at:
                next(model.parameters()).data[0, 0] = 3e30
        return loss(model, batch)


def with_faults(seed: int, device: str, bad: dict[int, float], flips: tuple[int, ...]) -> Workload:
    def batches(index: int) -> tuple[Tensor, Tensor]:
        x, y = batch_of(seed, index)
        return x, bad.get(index, 1.0) * y

    optimizer = lambda parameters: torch.optim.AdamW(parameters, lr=0.003)  # noqa: E731
    return fit(seed, device, steps=STEPS, optimizer=optimizer, batches=batches, loss=Flips(flips))


#: Damaged weights, from which the run goes back, and bad batches, whose steps are skipped.
FLIPS: dict[str, Any] = {"bad": _SKIPPED, "flips": (35, 62, 63, 100)}
#: Bad batches in a row, which the run goes back for and leaves out.
ROWS: dict[str, Any] = {"bad": _SKIPPED | _IN_A_ROW, "flips": ()}


@dataclass(frozen=True, kw_only=True)
class Death:
    """The process ends itself there, as if it were killed."""

    name: str
    call: int
    is_after: bool = False

    def plant(self) -> None:
        module = {"act": guarded_module.Guarded}.get(self.name, snapshots_module)
        own: Callable[..., Any] = getattr(module, self.name)
        calls = 0

        def dying(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == self.call and not self.is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            found = own(*args, **options)
            if calls == self.call:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        setattr(module, self.name, dying)


def train_here(folder: str, faults: dict[str, Any], death: Death | None = None) -> Trained:
    torch.set_num_threads(1)
    if death is not None:
        death.plant()
    training = Training(
        source=source(with_faults, **faults),
        recipe=recipe("bf16-sr"),
        seed=3,
        checkpoint_every=7,
        guard=SETTINGS,
    )
    return train(training, folder)
