"""Faults of the machine and of the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from mixprec.training import Session

from ._fault import Fault, Place
from ._largest_matrix import largest_matrix

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
        """Past autograd, which counts no change: that is how memory fails."""
        if calls != self.at:
            return
        weight = largest_matrix(session.model).data
        integer, bit = _EXPONENT[weight.element_size()]
        fitting = ((weight != 0) & (weight.abs() < 2)).nonzero()
        if len(fitting):
            one = weight[tuple(fitting[_draw(len(fitting), self.seed)].tolist())]
            one.view(integer).bitwise_xor_(1 << bit)


@final
@dataclass(frozen=True, kw_only=True)
class InfiniteMoment(Fault):
    """An infinity in what an optimizer remembers of a weight."""

    name: ClassVar[str] = "inf-moment"
    title: ClassVar[str] = "an inf in a moment"
    within: ClassVar[int | None] = 0

    def refusal(self, session: Session, batch: Any) -> str:
        """An optimizer without moments has none to spoil."""
        del batch
        if _moments(session):
            return ""
        names = ", ".join(sorted({type(optimizer).__name__ for optimizer in session.optimizers.values()}))
        return f"the optimizer ({names}) keeps no moments after its first step"

    def before_step(self, session: Session, calls: int) -> None:
        """Into one element of the largest floating-point state, of those as large the first."""
        if calls != self.at:
            return
        moments = _moments(session)
        if moments:
            moment = max(moments, key=Tensor.numel)
            place = torch.unravel_index(torch.tensor(_draw(moment.numel(), self.seed)), moment.shape)
            moment[place] = torch.inf


@final
@dataclass(frozen=True, kw_only=True)
class OutlierChannel(Fault):
    """One output channel of the largest matrix grows by a twentieth a step."""

    name: ClassVar[str] = "outlier"
    title: ClassVar[str] = "an outlier channel that grows 1.05 a step"
    within: ClassVar[int | None] = None

    growth: float = 1.05
    steps: int = 80

    @classmethod
    def planted(cls, place: Place) -> Self:
        """For 80 steps, or in a short run for two fifths of it."""
        return cls(at=place.at, seed=place.seed, steps=min(80, place.total_steps * 2 // 5))

    def before_step(self, session: Session, calls: int) -> None:
        """The same channel each time; as if training had made it, so that masters follow."""
        if self.at <= calls < self.at + self.steps:
            weight = largest_matrix(session.model)
            with torch.no_grad():
                weight[_draw(len(weight), self.seed)] *= self.growth


def _moments(session: Session) -> list[Tensor]:
    """Floating-point states with as many dimensions as a weight has, of all optimizers."""
    return [
        value
        for optimizer in session.optimizers.values()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim()
    ]


def _draw(count: int, seed: int) -> int:
    return int(torch.randint(count, (), generator=torch.Generator().manual_seed(seed)))
