"""The multiple-choice knapsack as an integer program for HiGHS (https://highs.dev), through ``scipy.optimize.milp``.

HiGHS takes a row for kept within 1e-6 and an optimum for found within 1e-6, so objective and rows are scaled to
ranges of ``_RANGE``: what is left of both is 1e-9 of the range. Rows are slack by ``_SLACK``, and a solution that
uses it is cut off and the rest solved again, so that limits hold exactly. Without the slack a sum that is beyond a
limit by less than HiGHS's tolerance is a solution to one part of HiGHS and none to another, and what it then calls
optimal may be far from it (seen with SciPy 1.17: limits a billionth below a sum, as a front asks for them). Ties go by
small weights of the other quantities, ``_TIE`` of the range each; smaller ones make HiGHS search long among choices
that differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._choice import Choice, Option
from ._problem import Problem

#: What rows may be exceeded by, as they are scaled: well beyond what HiGHS takes for kept.
_SLACK = 5e-6
#: What objective and rows are scaled to; and the weight of the quantities that decide ties, one after another.
_RANGE, _TIE = 1e3, 1e-6
#: Solutions a hair beyond a limit that are cut off before it counts as impossible.
_MOST_CUTS = 100

_Vector = NDArray[np.float64]


def solve(problem: Problem) -> Choice | None:
    """The best choice within the limits; ``None`` where there is none.

    The same options give the same choice, in whatever order they come.
    """
    free = problem.choice({group: options[0] for group, options in problem.options.items()})
    if problem.holds(free):
        return free
    if any(problem.least(name) > most for name, most in problem.limits.items()):
        return None
    return _solve_program(problem)


def _solve_program(problem: Problem) -> Choice | None:
    from scipy.optimize import Bounds, LinearConstraint, milp  # costs a moment, which only a search should pay
    from scipy.sparse import csr_array

    columns = [option for options in problem.options.values() for option in options]
    sizes = [len(options) for options in problem.options.values()]
    one_each = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    objective = _objective(problem, columns, sizes)
    limits = [_row(problem, name, columns, sizes) for name in problem.limits]
    matrix, most = [row for row, _ in limits], [largest for _, largest in limits]
    for _ in range(_MOST_CUTS):
        rows = csr_array(np.vstack([one_each, *matrix]))
        lower = np.concatenate([np.ones(len(sizes)), np.full(len(matrix), -np.inf)])
        upper = np.concatenate([np.ones(len(sizes)), most])
        found = cast(
            "Any",
            milp(
                objective,
                integrality=np.ones(len(columns)),
                bounds=Bounds(0, 1),
                constraints=LinearConstraint(rows, lower, upper),  # pyright: ignore[reportArgumentType]
                options={"mip_rel_gap": 0.0},
            ),
        )
        if found.x is None:
            return None
        taken: _Vector = np.round(found.x)
        choice = problem.choice({o.group: o for o, is_taken in zip(columns, taken, strict=True) if is_taken})
        if problem.holds(choice):
            return choice
        matrix, most = [*matrix, taken], [*most, len(sizes) - 1.0]
    return None


def _objective(problem: Problem, columns: Sequence[Option], sizes: Sequence[int]) -> _Vector:
    total, weight = np.zeros(len(columns)), _RANGE
    for name in problem.tie_order:
        values, spread = _above_least(columns, name, sizes)
        total += weight / spread * values if spread else 0.0
        weight *= _TIE
    return total


def _row(problem: Problem, name: str, columns: Sequence[Option], sizes: Sequence[int]) -> tuple[_Vector, float]:
    """A limit's coefficients and largest value, above the least possible and scaled."""
    values, spread = _above_least(columns, name, sizes)
    scale = _RANGE / spread if spread else 1.0
    return scale * values, scale * (problem.limits[name] - problem.least(name)) + _SLACK


def _above_least(columns: Sequence[Option], name: str, sizes: Sequence[int]) -> tuple[_Vector, float]:
    """What each option has above the least of its group, and the most that all groups together can."""
    values = np.array([option.of(name) for option in columns])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    above = values - np.repeat(np.minimum.reduceat(values, starts), sizes)
    return above, float(np.maximum.reduceat(above, starts).sum())
