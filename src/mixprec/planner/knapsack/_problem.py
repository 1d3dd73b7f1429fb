"""A search as it is solved: options by group in a fixed order, without those that another beats in everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from ...formats import unknown_name
from .._choice import Choice, Option, Quantity

QUANTITIES: tuple[str, ...] = get_args(Quantity)


@dataclass(frozen=True)
class Problem:
    """What is to be chosen.

    Attributes:
        options: those that a group may have, by group; the best in a fixed order first.
        groups: their names, in the order that was given.
        minimise: what is to be least; ties go to the least of the others, in the order of ``tie_order``.
        limits: largest sum over the groups, by quantity.
    """

    options: Mapping[str, tuple[Option, ...]]
    groups: tuple[str, ...]
    minimise: str
    limits: Mapping[str, float]

    @property
    def tie_order(self) -> tuple[str, ...]:
        """The quantities, the one to minimise first."""
        return (self.minimise, *(name for name in QUANTITIES if name != self.minimise))

    def without(self, limit: str) -> Problem:
        """The same with a limit less."""
        return replace(self, limits={name: most for name, most in self.limits.items() if name != limit})

    def least(self, quantity: str) -> float:
        """The least possible sum of a quantity, whatever the limits."""
        return math.fsum(min(option.of(quantity) for option in self.options[group]) for group in self.groups)

    def choice(self, chosen: Mapping[str, Option]) -> Choice:
        """The sums of what was chosen; exact but for one rounding, so that no order matters."""
        taken = [chosen[group] for group in self.groups]
        return Choice(
            candidates={option.group: option.candidate for option in taken},
            loss=math.fsum(option.loss for option in taken),
            seconds=math.fsum(option.seconds for option in taken),
            bytes=sum(option.bytes for option in taken),
            cost=math.fsum(option.cost for option in taken),
        )

    def holds(self, choice: Choice) -> bool:
        """Whether a choice is within every limit."""
        return all(choice.of(name) <= most for name, most in self.limits.items())


def make_problem(options: Sequence[Option], minimise: str, limits: Mapping[str, float]) -> Problem:
    """Order and check what is to be chosen from.

    Raises:
        ValueError: no options, a candidate twice in a group, a group that may have none, an unknown quantity or a
            limit that is no number.
    """
    for name in (minimise, *limits):
        if name not in QUANTITIES:
            raise unknown_name("quantity of a search", name, QUANTITIES)
    for name, most in limits.items():
        if not most >= 0:
            raise ValueError(f"limit {name}={most}: expected a number, 0 or more; math.inf is no limit")
    by_group = _by_group(options)
    problem = Problem({}, tuple(by_group), minimise, {name: most for name, most in limits.items() if most < math.inf})
    kept = {group: _undominated(by_group[group], problem.tie_order) for group in sorted(by_group)}
    return replace(problem, options=kept)


def _by_group(options: Sequence[Option]) -> dict[str, list[Option]]:
    if not options:
        raise ValueError("a search got no options: expected one for each candidate of each group, `keep` among them")
    found: dict[str, list[Option]] = {}
    for option in options:
        others = found.setdefault(option.group, [])
        if any(other.candidate == option.candidate for other in others):
            raise ValueError(f"group {option.group} has candidate {option.candidate} twice: expected each once")
        others.append(option)
    for group, all_of_it in found.items():
        if not any(option.allowed for option in all_of_it):
            reasons = "; ".join(f"{option.candidate}: {option.barred}" for option in all_of_it)
            raise ValueError(f"group {group} may have none of its candidates ({reasons}): relax one of these")
    return found


def _undominated(options: Iterable[Option], tie_order: Sequence[str]) -> tuple[Option, ...]:
    """Without what is barred, and what another option is at least as good as in every quantity."""

    def place(option: Option) -> tuple[float | str, ...]:
        return (*(option.of(name) for name in tie_order), option.candidate)

    kept: list[Option] = []
    for option in sorted((option for option in options if option.allowed), key=place):
        if not any(all(other.of(name) <= option.of(name) for name in QUANTITIES) for other in kept):
            kept.append(option)
    return tuple(kept)
