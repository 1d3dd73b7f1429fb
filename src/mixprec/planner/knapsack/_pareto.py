"""The Pareto front: every choice that is not beaten in both of two quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .._choice import Choice, Option, Quantity
from ._impossible import impossible
from ._problem import make_problem
from ._solve import solve

#: The least share of the largest value that a limited number of points is spread over, beside the least possible.
_FLOOR = 1e-4
#: A step below a point, to come to the next.
_BELOW = 1 - 1e-9


def pareto(
    options: Sequence[Option],
    *,
    minimise: Quantity = "seconds",
    against: Quantity = "loss",
    limits: Mapping[str, float] | None = None,
    points: int | None = 24,
) -> tuple[Choice, ...]:
    """Give the choices that are best in one quantity for what they have of another.

    Each is the exact optimum of a search with its own ``against`` as the limit. Their number is bounded since a front
    may have more points than anybody reads: those are spread evenly over the logarithm of ``against``.

    Args:
        options: as of ``search``.
        minimise: the first quantity.
        against: the second; it falls from point to point.
        limits: on these and the others, at every point.
        points: how many at most; ``None``: the whole front.

    Returns:
        The front, that with the least of ``minimise`` first. The last has the least possible of ``against``.

    Raises:
        ValueError: as ``search``; the same quantity twice; fewer than 2 points.

    Example:
        >>> options = [
        ...     Option(group="a", candidate="keep", loss=0, seconds=2, bytes=4),
        ...     Option(group="a", candidate="mxfp8", loss=1, seconds=1, bytes=1),
        ... ]
        >>> [(point.seconds, point.loss) for point in pareto(options)]
        [(1.0, 1.0), (2.0, 0.0)]
    """
    if minimise == against:
        raise ValueError(f"a front has two quantities, got '{minimise}' twice: expected e.g. seconds against loss")
    if points is not None and points < 2:
        raise ValueError(f"a front has its two ends at least, got points={points}; None gives all of it")
    problem = make_problem(options, minimise, limits or {})
    least = solve(make_problem(options, against, limits or {}))
    if least is None:
        raise impossible(problem, options)
    front: list[Choice] = []
    budget: float | None = None
    while True:
        limit = {} if budget is None else {against: budget}
        point = solve(replace(problem, limits={**problem.limits, **limit}))
        if point is None:
            break
        front.append(point)
        if point.of(against) <= least.of(against):
            break
        budget = _next_budget(front, against, least.of(against), points)
    return tuple(front)


def _next_budget(front: Sequence[Choice], against: str, least: float, points: int | None) -> float:
    """The largest value that the next point may have."""
    below = front[-1].of(against) * _BELOW
    if points is None:
        return max(below, least)
    if len(front) >= points - 1:
        return least
    most = front[0].of(against)
    floor = max(least, most * _FLOOR)
    spaced = most * (floor / most) ** (len(front) / (points - 1))
    return max(min(below, spaced), least)
