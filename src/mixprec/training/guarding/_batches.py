"""A loader's batches, by their numbers, without those that are left out; and the way back in them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ...monitor import load_random_states, random_states
from .._checkpoint_parts import Restorable

Batch = TypeVar("Batch")


class NoLoader:
    """Nobody counts batches: what was seen is not told by its number, and nothing is seen again."""

    next_number = 0
    can_go_back = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the batches since the last step."""
        return ()

    def end_step(self) -> None:
        """A step was made of them, or left out."""

    @property
    def loaders(self) -> dict[str, Restorable]:
        """Whose position a snapshot holds."""
        return {}

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Do not give these."""

    def went_back(self, number: int) -> None:
        """The loader is where a batch of that number comes next."""

    def give_random_states_back(self) -> None:
        """As if the batches since the last step had not been trained on."""


class NumberedBatches(NoLoader, Generic[Batch]):
    """Gives a loader's batches.

    Args:
        loader: that is iterated; it can go back where it has ``state_dict()`` and ``load_state_dict()``.
        number: of its first batch.
        left_out: numbers of those that are not given.

    Attributes:
        next_number: of the batch that follows.
        can_go_back: whether the loader can.
    """

    def __init__(self, loader: Iterable[Batch], number: int, left_out: set[int]) -> None:
        self._loader, self._left_out = loader, left_out
        self.next_number = number
        self.can_go_back = isinstance(loader, Restorable)
        self._is_elsewhere = False
        self._numbers: list[int] = []
        self._states: dict[str, Any] | None = None  # before the first of them was trained on

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the batches since the last step: several, where gradients are accumulated."""
        return tuple(self._numbers)

    def end_step(self) -> None:
        """A step was made of them, or left out."""
        self._numbers.clear()
        self._states = None

    @property
    def loaders(self) -> dict[str, Restorable]:
        """Whose position a snapshot holds."""
        return {"loader": self._loader} if isinstance(self._loader, Restorable) else {}

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Do not give these any more."""
        self._left_out.update(numbers)

    def went_back(self, number: int) -> None:
        """The loader was taken back; its iterator was not."""
        if self.can_go_back:
            self.next_number, self._is_elsewhere = number, True
            self.end_step()

    def give_random_states_back(self) -> None:
        """As if the batches since the last step had not been trained on: those that are left out consume nothing.

        What the loader itself has drawn for them between is given back too: exact for one batch a step, and for loaders
        that draw from a generator of their own.
        """
        if self._states is not None:
            load_random_states(self._states)

    def give(self, begin: Callable[[], None]) -> Generator[Batch]:
        """The batches; ``begin`` is called before the first."""
        iterator = iter(self._loader)
        begin()
        while True:
            if self._is_elsewhere:
                iterator, self._is_elsewhere = self._restarted(), False
            try:
                batch = next(iterator)
            except StopIteration:
                return
            number, self.next_number = self.next_number, self.next_number + 1
            if number in self._left_out:
                continue
            if not self._numbers:
                self._states = random_states()
            self._numbers.append(number)
            yield batch

    def _restarted(self) -> Iterator[Batch]:
        """A fresh iterator, which may draw where the run that goes on had not."""
        states = random_states()
        iterator = iter(self._loader)
        load_random_states(states)
        return iterator
