"""What a search chooses from, and what it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate for a group of sites, with what it costs.

    Attributes:
        group: name of the group.
        candidate: name of the candidate.
        loss: predicted change of the loss, at least 0.
        seconds: of a step that the group's products and casts take.
        bytes: of memory that depends on the choice (saved activations).
    """

    group: str
    candidate: str
    loss: float
    seconds: float
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One candidate for every group.

    Attributes:
        candidates: the candidate's name by the group's.
        loss: sum over the groups.
        seconds: sum over the groups.
        bytes: sum over the groups.
        binding: the limits that hold the choice back, by name.
    """

    candidates: Mapping[str, str]
    loss: float
    seconds: float
    bytes: int
    binding: tuple[str, ...] = ()
