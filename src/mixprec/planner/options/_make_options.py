"""An option for every group and candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .._candidate import KEEP, Candidate
from .._choice import Option
from .._scores import GroupScores, Scores
from ._bars import Bar, bar_by_score


def make_options(
    scores: Scores,
    candidates: Sequence[Candidate],
    *,
    seconds: Callable[[GroupScores, Candidate], float],
    size: Callable[[GroupScores, Candidate], int],
    price_per_second: float = 0.0,
    bars: Sequence[Bar] = (),
) -> tuple[Option, ...]:
    """Make what a search chooses from.

    Args:
        scores: of every group.
        candidates: ``"keep"`` is one of them whether it is named or not.
        seconds: predicted time of a group's products and casts in a step.
        size: predicted bytes of a group that depend on the choice.
        price_per_second: of the hardware.
        bars: tell what a group may not have, first come first told; what nothing is known of is barred too.

    Raises:
        ValueError: no groups, or two candidates of one name.

    Example:
        >>> from mixprec.planner import CandidateScore
        >>> group = GroupScores(name="a", sites=("a",), candidates={"low": CandidateScore(loss=0.5)})
        >>> scores = Scores(loss=2.0, batches=1, groups=(group,), seconds=1.0, step_seconds=0.5)
        >>> made = make_options(scores, [Candidate(name="low")], seconds=lambda g, c: 1.0, size=lambda g, c: 8)
        >>> [(option.candidate, option.loss) for option in made]
        [('keep', 0.0), ('low', 0.5)]
    """
    if not scores.groups:
        raise ValueError("there is nothing to choose: no site of this model multiplies by a weight that was scored")
    names = [candidate.name for candidate in candidates]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"candidate {', '.join(repeated)} is named more than once: name each once")
    every = candidates if KEEP in names else (Candidate(name=KEEP), *candidates)
    return tuple(
        Option(
            group=group.name,
            candidate=candidate.name,
            loss=_loss(group, candidate),
            seconds=seconds(group, candidate),
            bytes=size(group, candidate),
            cost=seconds(group, candidate) * price_per_second,
            barred=next((why for bar in (bar_by_score, *bars) if (why := bar(group, candidate))), ""),
        )
        for group in scores.groups
        for candidate in every
    )


def _loss(group: GroupScores, candidate: Candidate) -> float:
    score = group.candidates.get(candidate.name)
    if candidate.name == KEEP:
        return 0.0
    return math.nan if score is None else max(score.loss, 0.0) if math.isfinite(score.loss) else score.loss
