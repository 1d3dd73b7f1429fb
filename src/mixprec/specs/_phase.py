"""A recipe over time: rules that hold from a step on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from ..formats import unknown_name
from ._kinds import check_kinds, tuple_of
from ._rule import Rule
from ._rule_kinds import check_rules

#: What a phase may wait for: the learning rate's first fall below its highest, or gradients that drown in rounding
#: noise.
Signal = Literal["decay", "noise"]
_NONE_BEGUN: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Rules that replace a recipe's own from some step on; weights, moments and histories are carried over.

    Attributes:
        rules: ordered, as those of a recipe; none at all: everything in the compute dtype.
        from_step: the first step (counted from 0, skipped ones not counted) that the rules hold for.
        last: or the share of the run, at its end, that they hold for; needs the run's length.
        when: or what a session sees: ``"decay"``: the first applied step whose learning rate was below the highest so
            far; ``"noise"``: a measurement of ``session.shadow`` whose gradient was less than sqrt(3) times the noise
            that the casts have put into it.

    Raises:
        ValueError: none or several of them, or one out of its range.
        TypeError: rules that are none.

    Source: NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149: bf16 for the last part of training
    takes back most of the loss, also where only the forward pass changes. Chmiel et al., FP4 All the Way,
    arXiv:2505.19115, for sqrt(3).

    Example:
        >>> Phase(last=0.2).begins(100)
        80
    """

    rules: tuple[Rule, ...] = ()
    from_step: int | None = None
    last: float | None = None
    when: Signal | None = None

    def __post_init__(self) -> None:
        check_kinds("phase", self, {"rules": tuple_of(Rule)})
        check_rules(self.rules)
        said = [name for name in ("from_step", "last", "when") if getattr(self, name) is not None]
        if len(said) != 1:
            raise ValueError(
                f"phase has from_step={self.from_step}, last={self.last}, when={self.when}: expected one of the three"
            )
        if self.when is not None:
            if self.when not in get_args(Signal):
                raise unknown_name("when", self.when, get_args(Signal))
            return
        is_step = type(self.from_step) is int and self.from_step >= 1
        is_share = type(self.last) is float and 0 < self.last < 1
        if not (is_step or is_share):
            raise ValueError(
                f"phase has from_step={self.from_step}, last={self.last}: expected a step from 1 on, or a share "
                "between 0 and 1"
            )

    @property
    def when_text(self) -> str:
        """When it begins, in words.

        Example:
            >>> Phase(when="decay").when_text
            'at the decay signal'
        """
        if self.when is not None:
            return f"at the {self.when} signal"
        return f"from step {self.from_step}" if self.from_step is not None else f"the last {self.last:g}"

    def begins(self, total_steps: int | None, begun: Mapping[str, int] = _NONE_BEGUN) -> int | None:
        """Give the first step that the rules hold for; ``None``: what the phase waits for has not come.

        Args:
            total_steps: of the run.
            begun: the step at which each signal has come.

        Raises:
            ValueError: the phase is a share of the run, and its length is not known.
        """
        if self.when is not None:
            return begun.get(self.when)
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


def phase_at(
    name: str, phases: tuple[Phase, ...], step: int, total_steps: int | None, begun: Mapping[str, int] = _NONE_BEGUN
) -> Phase | None:
    """Give the phase that holds at a step, the last one in the recipe that has begun, or ``None`` before the first.

    Raises:
        ValueError: the run's length is needed and missing, or the phases turn out to be out of order.
    """
    starts = [phase.begins(total_steps, begun) for phase in phases]
    known = [start for phase, start in zip(phases, starts, strict=True) if phase.when is None and start is not None]
    if any(a >= b for a, b in itertools.pairwise(known)):
        raise ValueError(f"recipe '{name}': with {total_steps} steps its phases begin at {known}, out of order")
    held = [phase for phase, start in zip(phases, starts, strict=True) if start is not None and step >= start]
    return held[-1] if held else None
