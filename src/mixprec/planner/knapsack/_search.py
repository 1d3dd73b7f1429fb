"""The search: the best choice under limits, what holds it back, and what is least where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .._choice import Choice, Option, Quantity
from ._impossible import impossible
from ._problem import Problem, make_problem
from ._solve import solve

#: Of a quantity; a difference below it is none.
_SAME = 1e-9


def search(
    options: Sequence[Option],
    *,
    minimise: Quantity = "seconds",
    limits: Mapping[str, float] | None = None,
) -> Choice:
    """Choose a candidate for every group so that a sum is least, and others are within their limits.

    Exact: no choice within the limits is better by more than a millionth of the quantity's range. Of equally good
    choices that with the least loss is taken, then seconds, bytes and cost, then the candidate's name, so that equal
    options give an equal choice in whatever order they come. A larger limit never gives a worse choice.

    Args:
        options: of every group, for every candidate; what is ``barred`` is not chosen.
        minimise: ``"seconds"``, ``"bytes"``, ``"cost"`` or ``"loss"``.
        limits: the largest sum over the groups, by quantity, e.g. ``{"loss": 0.01}``.

    Returns:
        The choice, with the limits that bind.

    Raises:
        ValueError: options that cannot be chosen from, an unknown quantity, or limits that no choice keeps: the message
            says what is least, and which limit, rule or group is in the way.

    Example:
        >>> options = [
        ...     Option(group="a", candidate="keep", loss=0, seconds=2, bytes=4),
        ...     Option(group="a", candidate="mxfp8", loss=1, seconds=1, bytes=1),
        ...     Option(group="b", candidate="keep", loss=0, seconds=2, bytes=4),
        ...     Option(group="b", candidate="mxfp8", loss=3, seconds=1, bytes=1),
        ... ]
        >>> choice = search(options, limits={"loss": 2})
        >>> dict(choice.candidates), choice.seconds, choice.binding
        ({'a': 'mxfp8', 'b': 'keep'}, 3.0, ('loss',))
    """
    problem = make_problem(options, minimise, limits or {})
    choice = solve(problem)
    if choice is None:
        raise impossible(problem, options)
    return replace(choice, binding=_binding(problem, choice))


def _binding(problem: Problem, choice: Choice) -> tuple[str, ...]:
    """The limits without which the choice would be better; all of them where only several together bind."""
    if not _is_better(solve(replace(problem, limits={})), choice, problem.minimise):
        return ()
    alone = [name for name in problem.limits if _is_better(solve(problem.without(name)), choice, problem.minimise)]
    return tuple(alone or problem.limits)


def _is_better(other: Choice | None, choice: Choice, quantity: str) -> bool:
    return other is not None and other.of(quantity) < choice.of(quantity) - _SAME * abs(choice.of(quantity))
