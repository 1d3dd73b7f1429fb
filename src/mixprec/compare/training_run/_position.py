"""Where a run is in its data: the number of the next batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import torch

from .._random_state import step_seed


def seed_all(seed: int, index: int) -> None:
    """Let a batch's draws, of torch, Python and numpy, follow from the seed and the batch's number alone.

    Example:
        >>> seed_all(0, 7)
        >>> first = torch.rand(()).item()
        >>> seed_all(0, 7)
        >>> torch.rand(()).item() == first
        True
    """
    number = step_seed(seed, index)
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


class Position:
    """Gives batches by their numbers, and knows the next one; a checkpoint holds it.

    Args:
        batches: gives the batch of a number.
        seed: of the run; every batch begins with random states of its own.

    Attributes:
        index: of the next batch.
    """

    def __init__(self, batches: Callable[[int], Any], seed: int) -> None:
        self.index = 0
        self._batches, self._seed = batches, seed

    def __iter__(self) -> Generator[Any]:
        """Batches without end; one counts as used once it is given."""
        while True:
            index = self.index
            seed_all(self._seed, index)
            batch = self._batches(index)
            self.index = index + 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """What goes into a checkpoint."""
        return {"index": self.index}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on with the batch after the last one that was used."""
        self.index = state["index"]
