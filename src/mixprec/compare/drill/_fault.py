"""What a drill does to a run, in general."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from mixprec.specs import Recipe
from mixprec.training import Session

#: What tells a fault's time: calls of ``step``, the batch's number, or applied steps.
Clock = Literal["calls", "batches", "applied"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a fault is put into a run.

    Attributes:
        at: when it begins, by the fault's own clock.
        seed: of what it draws.
        total_steps: of the run.
        site: for a fault of one site: that site.
    """

    at: int
    seed: int
    total_steps: int
    site: str = ""


@dataclass(frozen=True, kw_only=True)
class Fault(ABC):
    """A fault that is planted into a run.

    Faults of the machine and of a schedule come at a time: they go by calls of ``step``, and a run that has gone back
    does not meet them again. Faults of the data lie in batches and go by their number, those of the precision in the
    recipe: a run that has gone back meets them again, unless it leaves them out or widens.

    Attributes:
        at: when it begins.
        seed: of what it draws.
        name: its word on the command line.
        title: what it does, in words.
        within: steps within which it is to be seen; ``None``: that depends on its size, and what has cost nothing may
            go unseen.
        clock: what ``at`` is counted in.
    """

    at: int
    seed: int = 0

    name: ClassVar[str]
    title: ClassVar[str]
    within: ClassVar[int | None]
    clock: ClassVar[Clock] = "calls"

    @classmethod
    def planted(cls, place: Place) -> Self:
        """The fault at its place."""
        return cls(at=place.at, seed=place.seed)

    def refusal(self, session: Session, batch: Any) -> str:
        """Why it cannot be planted into such a run, after its first step; empty where it can."""
        del session, batch
        return ""

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe that the run is prepared with."""
        return recipe

    def batch(self, number: int, batch: Any) -> Any:
        """The batch of that number."""
        del number
        return batch

    def before_step(self, session: Session, calls: int) -> None:
        """Something happens before the forward pass of a step, after so many calls of ``step``."""
        del session, calls
