"""Faults of the machine and of the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.nn import Parameter

from mixprec.training import Session

from ._fault import Fault

#: By the size of an element: the integer of that size, and the highest bit of the exponent.
_EXPONENT = {2: (torch.int16, 14), 4: (torch.int32, 30), 8: (torch.int64, 62)}


@final
@dataclass(frozen=True, kw_only=True)
class LearningRate(Fault):
    """Ten times the learning rate for 20 steps."""

    name: ClassVar[str] = "learning-rate"
    title: ClassVar[str] = "learning rate x10 for 20 steps"
    within: ClassVar[int | None] = 10

    factor: float = 10.0
    steps: int = 20

    def before_step(self, session: Session, calls: int) -> None:
        """Whoever drives the run sets the rates of each step before this."""
        if self.at <= calls < self.at + self.steps:
            for optimizer in session.optimizers.values():
                for group in optimizer.param_groups:
                    group["lr"] *= self.factor


@final
@dataclass(frozen=True, kw_only=True)
class BitFlip(Fault):
    """The highest bit of the exponent of one weight, below 2 and not zero, of the largest matrix."""

    name: ClassVar[str] = "bit-flip"
    title: ClassVar[str] = "a flipped exponent bit in a weight"
    within: ClassVar[int | None] = 1

    def before_step(self, session: Session, calls: int) -> None:
        """A cosmic ray."""
        if calls != self.at:
            return
        weight = max(session.model.parameters(), key=lambda p: (p.dim() > 1, p.numel())).data
        integer, bit = _EXPONENT[weight.element_size()]
        flat = weight.view(-1)
        fitting = ((flat != 0) & (flat.abs() < 2)).nonzero().view(-1)
        one = int(fitting[_draw(len(fitting), self.seed)])
        flat[one : one + 1].view(integer).bitwise_xor_(1 << bit)


@final
@dataclass(frozen=True, kw_only=True)
class InfiniteMoment(Fault):
    """An infinity in what an optimizer remembers of a weight."""

    name: ClassVar[str] = "inf-moment"
    title: ClassVar[str] = "an inf in a moment"
    within: ClassVar[int | None] = 0

    def before_step(self, session: Session, calls: int) -> None:
        """Into one element of a floating-point state of the largest matrix that has one."""
        if calls != self.at:
            return
        kept = [state for state in map(_moment, _states(session)) if state is not None]
        if kept:
            moment = max(kept, key=Tensor.numel)
            moment.view(-1)[_draw(moment.numel(), self.seed)] = torch.inf


@final
@dataclass(frozen=True, kw_only=True)
class OutlierChannel(Fault):
    """One output channel of the largest matrix grows by a twentieth a step."""

    name: ClassVar[str] = "outlier"
    title: ClassVar[str] = "an outlier channel that grows 1.05 a step, for 80 steps"
    within: ClassVar[int | None] = None

    growth: float = 1.05
    steps: int = 80

    def before_step(self, session: Session, calls: int) -> None:
        """The same channel each time."""
        if self.at <= calls < self.at + self.steps:
            weight = max(session.model.parameters(), key=lambda p: (p.dim() > 1, p.numel()))
            weight.data[_draw(len(weight), self.seed)] *= self.growth


def _states(session: Session) -> list[dict[str, object]]:
    return [
        optimizer.state[param]
        for optimizer in session.optimizers.values()
        for group in optimizer.param_groups
        for param in group["params"]
        if isinstance(param, Parameter | Tensor) and param in optimizer.state
    ]


def _moment(state: dict[str, object]) -> Tensor | None:
    found = [t for t in state.values() if isinstance(t, Tensor) and t.is_floating_point() and t.dim()]
    return max(found, key=Tensor.numel, default=None)


def _draw(count: int, seed: int) -> int:
    return int(torch.randint(count, (), generator=torch.Generator().manual_seed(seed)))
