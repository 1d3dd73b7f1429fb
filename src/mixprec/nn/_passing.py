"""What belongs to one pass through a model: its random bits, its memory, and which module is running."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ._past_passes import Repeated, TrainingPass
from ._workspace import Workspace


def new_random_state(seed: int) -> Tensor:
    """The ``[seed, offset]`` that the random casts of one conversion draw from."""
    return torch.tensor([seed, 0], dtype=torch.int64)


@dataclass
class Pass:
    """One pass; each thread has its own.

    Attributes:
        drawn: ``[seed, offset]`` of the running forward pass, or of the last training pass.
        has_drawn: whether there was a training pass.
        records: whether it is a training pass, whose amaxes go into the histories.
        running: path of the innermost running module that may call functions.
        depth: autocast regions that were open when it began, its own included.
        training: the training pass that runs here, or the last one.
        repeats: which pass the running module repeats, in a recomputation.
        workspace: memory for operands.
    """

    drawn: Tensor = field(default_factory=lambda: new_random_state(0))
    has_drawn: bool = False
    running: str = ""
    records: bool = False
    depth: int = 0
    training: TrainingPass | None = None
    repeats: Repeated | None = None
    workspace: Workspace = field(default_factory=lambda: Workspace())


class Passes(threading.local):
    """The pass of each thread."""

    def __init__(self) -> None:
        self.own = Pass()
