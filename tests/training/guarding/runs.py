"""Small guarded runs, whose batches can be bad and whose loader can go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mixprec import prepare
from mixprec.guard import Guard, Snapshots
from mixprec.training import Guarded, Session

#: Levels are known after as many steps.
SETTINGS = Guard(snapshots=Snapshots(every=10, quiet=5))


class Numbers:
    """Batches by their numbers, some of them bad; goes back."""

    def __init__(self, count: int, bad: Callable[[int, Tensor], Tensor] = lambda _, x: x) -> None:
        self.count, self.index, self.bad = count, 0, bad
        self.given: list[int] = []

    def __iter__(self) -> Iterator[Tensor]:
        while self.index < self.count:
            number, self.index = self.index, self.index + 1
            draw = torch.Generator().manual_seed(number)
            self.given.append(number)
            yield self.bad(number, torch.randn(16, 8, generator=draw))

    def state_dict(self) -> dict[str, Any]:
        return {"index": self.index}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.index = state["index"]


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8))


def begin(
    recipe: str = "bf16", settings: Guard = SETTINGS, *, rate: float = 1e-3, **options: Any
) -> tuple[Session, Guarded]:
    model = net()
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=rate), recipe, **options)
    torch.manual_seed(1)
    return session, session.guard(settings)


def loss(session: Session, x: Tensor) -> Tensor:
    target = x.roll(1, 1).tanh()
    return (session.model(x) - target).square().mean()


def run(
    session: Session,
    guarded: Guarded,
    loader: Numbers,
    before: Callable[[int], None] = lambda calls: None,
    **options: Any,
) -> list[bool]:
    """Train on all batches; which steps were applied."""
    applied: list[bool] = []
    for x in guarded.batches(loader, **options):
        before(len(applied))
        applied.append(session.step(loss(session, x)).applied)
    return applied


def weights(session: Session) -> list[Tensor]:
    return [p.detach().clone() for p in session.model.parameters()]
