"""From batches to the scores of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._candidate import KEEP
from .._scores import CandidateScore, GroupScores
from ._batch import BatchScores, added
from ._collector import SiteTally
from ._groups import Grouping


def group_scores(
    batches: Sequence[BatchScores], grouping: Grouping, candidates: Sequence[str]
) -> tuple[GroupScores, ...]:
    """Scores by group, in the order of the model."""
    groups: list[GroupScores] = []
    for sites in grouping.groups():
        tallies = [batch.sites[site] for batch in batches for site in sites if site in batch.sites]
        scored = {KEEP: CandidateScore(loss=0.0, gradient_noise=_noise(tallies))}
        scored |= {name: _score(batches, tallies, sites, name) for name in candidates}
        kinds = {site: batch.sites[site].kind for batch in batches for site in sites if site in batch.sites}
        groups.append(
            GroupScores(
                name=sites[0],
                sites=sites,
                kinds=tuple(kinds[site] for site in sites),
                candidates=scored,
                is_dead=all(tally.gradient == 0 for tally in tallies),
            )
        )
    return tuple(groups)


def _score(
    batches: Sequence[BatchScores], tallies: Sequence[SiteTally], sites: Sequence[str], name: str
) -> CandidateScore:
    found = [tally.candidates[name] for tally in tallies]
    gradient = sum(tally.weight_gradient for tally in tallies)
    return CandidateScore(
        loss=_loss(batches, sites, name),
        gradient_error=_ratio(sum(t.gradient_error for t in found), gradient),
        gradient_bias=_ratio(sum(max(t.gradient_bias, 0.0) for t in found), gradient),
        gradient_noise=_noise(tallies),
        output_error=_quotient(sum(t.error for t in found), sum(t.square for t in tallies)),
    )


def _loss(batches: Sequence[BatchScores], sites: Sequence[str], name: str) -> float:
    total = 0.0
    for batch in batches:
        changes = added([batch.projections[site, name] for site in sites if site in batch.sites])
        total += 0.5 * float(changes.square().sum()) / batch.terms
    return total / len(batches)


def _noise(tallies: Sequence[SiteTally]) -> float:
    return _ratio(sum(t.weight_noise for t in tallies), sum(t.weight_gradient for t in tallies))


def _ratio(error: float, signal: float) -> float:
    return math.sqrt(_quotient(error, signal))


def _quotient(error: float, signal: float) -> float:
    return error / signal if signal > 0 else 0.0
