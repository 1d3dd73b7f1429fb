"""A recipe over time: rules that hold from a step on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ._kinds import check_kinds, tuple_of
from ._rule import Rule
from ._rule_kinds import check_rules


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Rules that replace a recipe's own from some step on; weights, moments and histories are carried over.

    Attributes:
        rules: ordered, as those of a recipe; none at all: everything in the compute dtype.
        from_step: the first step (counted from 0, skipped ones not counted) that the rules hold for.
        last: or the share of the run, at its end, that they hold for; needs the run's length.

    Raises:
        ValueError: neither or both of them, or one out of its range.
        TypeError: rules that are none.

    Source: NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149: bf16 for the last part of training
    takes back most of the loss, also where only the forward pass changes.

    Example:
        >>> Phase(last=0.2).begins(100)
        80
    """

    rules: tuple[Rule, ...] = ()
    from_step: int | None = None
    last: float | None = None

    def __post_init__(self) -> None:
        check_kinds("phase", self, {"rules": tuple_of(Rule)})
        check_rules(self.rules)
        if (self.from_step is None) == (self.last is None):
            raise ValueError(f"phase has from_step={self.from_step}, last={self.last}: expected one of the two")
        is_step = type(self.from_step) is int and self.from_step >= 1
        is_share = type(self.last) is float and 0 < self.last < 1
        if not (is_step or is_share):
            raise ValueError(
                f"phase has from_step={self.from_step}, last={self.last}: expected a step from 1 on, or a share "
                "between 0 and 1"
            )

    def begins(self, total_steps: int | None) -> int:
        """Give the first step that the rules hold for.

        Raises:
            ValueError: the phase is a share of the run, and its length is not known.
        """
        if self.from_step is not None:
            return self.from_step
        if total_steps is None or self.last is None:
            raise ValueError(f"the phase 'last {self.last}' needs the length of the run: say total_steps")
        return round(total_steps * (1 - self.last))


def check_phases(name: str, phases: tuple[Phase, ...]) -> None:
    """Refuse phases that are out of order, as far as their steps tell.

    Raises:
        ValueError: one begins before the one that stands in front of it.
    """
    for group in ([p.from_step for p in phases], [None if p.last is None else -p.last for p in phases]):
        starts = [start for start in group if start is not None]
        if any(a >= b for a, b in itertools.pairwise(starts)):
            raise ValueError(f"recipe '{name}': its phases are out of order: each must begin after the one before")


def phase_at(name: str, phases: tuple[Phase, ...], step: int, total_steps: int | None) -> Phase | None:
    """Give the phase that holds at a step, or ``None`` before the first.

    Raises:
        ValueError: the run's length is needed and missing, or the phases turn out to be out of order.
    """
    starts = [phase.begins(total_steps) for phase in phases]
    if any(a >= b for a, b in itertools.pairwise(starts)):
        raise ValueError(f"recipe '{name}': with {total_steps} steps its phases begin at {starts}, out of order")
    begun = [phase for phase, start in zip(phases, starts, strict=True) if step >= start]
    return begun[-1] if begun else None
