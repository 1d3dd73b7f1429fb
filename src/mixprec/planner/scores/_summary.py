"""From batches to the scores of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._candidate import KEEP
from .._scores import CandidateScore, GroupScores
from ._batch import BatchScores, Change, changes_of
from ._collector import SiteTally
from ._groups import Grouping
from ._shrinkage import predicted, shared_slope


def group_scores(
    batches: Sequence[BatchScores], grouping: Grouping, candidates: Sequence[str]
) -> tuple[tuple[GroupScores, ...], dict[str, float]]:
    """Scores by group, in the order of the model; and by candidate, of all groups together."""
    groups = grouping.groups()
    choices = [(sites, name) for sites in groups for name in candidates]
    changes = dict(zip(choices, changes_of(batches, choices), strict=True))
    share = shared_slope(changes.values())
    made: list[GroupScores] = []
    for sites in groups:
        tallies = [batch.sites[site] for batch in batches for site in sites if site in batch.sites]
        kinds = {site: batch.sites[site].kind for batch in batches for site in sites if site in batch.sites}
        scored = {KEEP: CandidateScore(loss=0.0, gradient_noise=_noise(tallies))}
        scored |= {name: _score(changes[sites, name], share, tallies, name) for name in candidates}
        made.append(
            GroupScores(
                name=sites[0],
                sites=sites,
                kinds=tuple(kinds[site] for site in sites),
                candidates=scored,
                is_dead=all(tally.gradient == 0 for tally in tallies),
            )
        )
    every = [site for sites in groups for site in sites]
    of_all = changes_of(batches, [(every, name) for name in candidates])
    together = {name: _together(change, made, name) for name, change in zip(candidates, of_all, strict=True)}
    return tuple(made), {KEEP: 0.0} | together


def _together(change: Change, groups: Sequence[GroupScores], name: str) -> float:
    """Slopes add up, as they are believed of each group; what is beyond them is of all groups at once."""
    scores = [group.candidates[name] for group in groups]
    return change.curvature + change.beyond + sum(s.loss - s.curvature - s.beyond for s in scores)


def _score(change: Change, share: float, tallies: Sequence[SiteTally], name: str) -> CandidateScore:
    found = [tally.candidates[name] for tally in tallies]
    gradient = sum(tally.weight_gradient for tally in tallies)
    return CandidateScore(
        loss=predicted(change, share),
        curvature=change.curvature,
        beyond=change.beyond,
        slope=change.slope,
        slope_error=math.sqrt(change.variance),
        gradient_error=_ratio(sum(t.gradient_error for t in found), gradient),
        gradient_bias=_ratio(sum(t.gradient_bias for t in found), gradient),
        gradient_noise=_noise(tallies),
        output_error=_quotient(sum(t.error for t in found), sum(t.square for t in tallies)),
    )


def _noise(tallies: Sequence[SiteTally]) -> float:
    return _ratio(sum(t.weight_noise for t in tallies), sum(t.weight_gradient for t in tallies))


def _ratio(error: float, signal: float) -> float:
    """Root of a quotient; an estimate of a square without bias may come out below zero."""
    return math.sqrt(max(_quotient(error, signal), 0.0))


def _quotient(error: float, signal: float) -> float:
    return error / signal if signal > 0 else 0.0
