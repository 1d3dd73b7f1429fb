"""What is told where no choice keeps the limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from .._choice import Option
from ._problem import Problem
from ._solve import solve

#: Rules that are in the way are told of so many groups.
_SHOWN = 3


def impossible(problem: Problem, options: Sequence[Option]) -> ValueError:
    """The error: what was asked for, the least that is possible, and what binds."""
    for name, most in problem.limits.items():
        least = problem.least(name)
        if least > most:
            return ValueError(
                f"no choice has {name} at most {most:.4g}: the least possible is {least:.4g}"
                f"{_bars(problem, options, name)}"
            )
    told = "; ".join(_least_beside(problem, name) for name in problem.limits)
    return ValueError(f"the limits exclude one another: {told}; relax one of them")


def _least_beside(problem: Problem, name: str) -> str:
    others = problem.without(name)
    beside = " and ".join(f"{other} at most {most:.4g}" for other, most in others.limits.items())
    # Ordered anew, for what dominates does not depend on what is minimised.
    best = solve(replace(others, minimise=name, options=_sorted_by(others, name)))
    least = "nothing is possible" if best is None else f"the least possible {name} is {best.of(name):.4g}"
    return f"with {beside}, {least}, asked for was {problem.limits[name]:.4g}"


def _sorted_by(problem: Problem, name: str) -> dict[str, tuple[Option, ...]]:
    return {group: tuple(sorted(o, key=lambda option: option.of(name))) for group, o in problem.options.items()}


def _bars(problem: Problem, options: Sequence[Option], name: str) -> str:
    """Which groups would come lower but for a rule, or which weigh most."""
    lower: list[tuple[float, str]] = []
    for group, allowed in problem.options.items():
        least = min(option.of(name) for option in allowed)
        for option in options:
            value = option.of(name)
            if option.group == group and option.barred and math.isfinite(value) and value < least:
                lower.append((value - least, f"{group} may not have {option.candidate} ({option.barred})"))
    if lower:
        shown = [text for _, text in sorted(lower)[:_SHOWN]]
        more = f", and {len(lower) - _SHOWN} more" if len(lower) > _SHOWN else ""
        return f"; in the way: {', '.join(shown)}{more}"
    heaviest = max(problem.groups, key=lambda group: min(option.of(name) for option in problem.options[group]))
    own = min(option.of(name) for option in problem.options[heaviest])
    return f", of which {heaviest} alone has {own:.4g}; raise the limit"
