"""What a layout of devices needs and takes, as a value that prints as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ._layout import Parallelism

Bound = Literal["compute", "link", "network", "bubble"]


@dataclass(frozen=True, kw_only=True)
class ParallelTerm:
    """A part of a step's time.

    Attributes:
        name: what it is.
        seconds: that it takes.
        exposed: of those, what no computation hides.
        bytes: that a device sends, 0 of a computation.
        bound: what it is bound by.
    """

    name: str
    seconds: float
    exposed: float
    bytes: float = 0.0
    bound: Bound


@dataclass(frozen=True, kw_only=True)
class ParallelForecast:
    """Memory of the fullest device and time of a step, on paper.

    Attributes:
        model: name of the architecture.
        parameters: of the model.
        recipe: its name.
        layout: of the devices.
        tokens: of a step, all ranks together.
        flops: of a step, all devices together, without recomputation.
        memory: bytes of the fullest device, by kind.
        terms: of a step's time.
        notes: what is assumed, and that nothing of it was measured.
    """

    model: str
    parameters: int
    recipe: str
    layout: Parallelism
    tokens: int
    flops: int
    memory: Mapping[str, int]
    terms: tuple[ParallelTerm, ...]
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Of the fullest device."""
        return sum(self.memory.values())

    @property
    def seconds(self) -> float:
        """Of a step: what is exposed of its terms."""
        return sum(term.exposed for term in self.terms)
