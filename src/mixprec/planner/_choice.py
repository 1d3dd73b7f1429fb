"""What a search chooses from, and what it chose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: What a search may minimise or limit.
Quantity = Literal["loss", "seconds", "bytes", "cost"]


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate for a group of sites, with what it costs.

    Attributes:
        group: name of the group.
        candidate: name of the candidate.
        loss: predicted change of the loss, at least 0 [units of the loss].
        seconds: of a step that the group's products and casts take.
        bytes: of memory that depends on the choice (saved activations).
        cost: money for the group's share of a step.
        barred: why the group may not have it; empty where it may.

    Raises:
        ValueError: a quantity that is negative or not finite, of an option that is not barred.

    Example:
        >>> Option(group="head", candidate="mxfp4", loss=0.01, seconds=1e-3, bytes=64, barred="head stays keep").allowed
        False
    """

    group: str
    candidate: str
    loss: float
    seconds: float
    bytes: int
    cost: float = 0.0
    barred: str = ""

    def __post_init__(self) -> None:
        for name in ("loss", "seconds", "bytes", "cost"):
            value = self.of(name)
            if self.allowed and not (math.isfinite(value) and value >= 0):
                raise ValueError(
                    f"option {self.candidate} of {self.group} has {name}={value}: expected a finite number, 0 or more; "
                    "say in `barred` why it cannot be had"
                )

    @property
    def allowed(self) -> bool:
        """Whether the group may have it."""
        return not self.barred

    def of(self, quantity: str) -> float:
        """One of its quantities by name."""
        value: float = getattr(self, quantity)
        return value


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One candidate for every group.

    Attributes:
        candidates: the candidate's name by the group's.
        loss: sum over the groups.
        seconds: sum over the groups.
        bytes: sum over the groups.
        cost: sum over the groups.
        binding: the limits without which the choice would be better, by name.
    """

    candidates: Mapping[str, str]
    loss: float
    seconds: float
    bytes: int
    cost: float = 0.0
    binding: tuple[str, ...] = ()

    def of(self, quantity: str) -> float:
        """One of its quantities by name."""
        value: float = getattr(self, quantity)
        return value
