"""What a drill does to a run, in general."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar

from mixprec.specs import Recipe
from mixprec.training import Session


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
        within: steps within which it is to be seen; ``None``: that depends on its size.
    """

    at: int
    seed: int = 0

    name: ClassVar[str]
    title: ClassVar[str]
    within: ClassVar[int | None]

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
