"""The batches of a run, with a fault in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..training_run import Position
from ._fault import Fault


class PlantedBatches:
    """Gives batches by their numbers without an end, and can be sent back.

    Args:
        batches: gives the batch of a number.
        seed: of the run; every batch begins with random states of its own.
        fault: may change a batch.

    Attributes:
        number: of the batch that was given last; -1 before the first.
    """

    def __init__(self, batches: Callable[[int], Any], seed: int, fault: Fault) -> None:
        self._position = Position(batches, seed)
        self._fault = fault

    @property
    def number(self) -> int:
        return self._position.index - 1

    def __iter__(self) -> Iterator[Any]:
        for batch in self._position:
            yield self._fault.batch(self.number, batch)

    def state_dict(self) -> dict[str, int]:
        """Where the next batch is taken from."""
        return self._position.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self._position.load_state_dict(state)
