"""From what a pass showed to what one batch says of each group: to first order and to second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._collector import Collector, SiteTally
from ._margins import beyond_second
from ._outputs import Counted
from ._terms import by_term

#: Numbers that are worked on at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BatchScores:
    """One batch.

    Attributes:
        loss: unrounded.
        counted: the terms that it averages over, and the samples that they come from.
        sites: what was summed of each.
        changes: by site and candidate: [terms], the change of each term to first order.
        drawn: likewise, along gradients drawn so that the mean of the squares is the curvature.
        missed: [rows of the output], what the model gives to other classes than the target, of a cross-entropy.
    """

    loss: float
    counted: Counted
    sites: Mapping[str, SiteTally]
    changes: Mapping[tuple[str, str], Tensor]
    drawn: Mapping[tuple[str, str], Tensor]
    missed: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a candidate does to the mean loss of a batch, or of several.

    Attributes:
        curvature: half the mean square of the terms' changes along drawn gradients, or along their own: the second
            order.
        slope: the mean of the terms' changes: the first order.
        variance: of ``slope``, between samples; infinite where there is only one.
        beyond: what comes to these two where errors are as large as margins.
    """

    curvature: float
    slope: float
    variance: float
    beyond: float = 0.0


def score_batch(loss: float, collector: Collector, counted: Counted, missed: Tensor | None = None) -> BatchScores:
    """What was collected, by term."""
    changes: dict[tuple[str, str], Tensor] = {}
    drawn: dict[tuple[str, str], Tensor] = {}
    for name, site in collector.sites.items():
        for candidate, tally in site.candidates.items():
            for made, rows in ((changes, tally.projections), (drawn, tally.drawn or tally.projections)):
                made[name, candidate] = _added([by_term(p, counted.terms).double() * counted.terms for p in rows])
            tally.projections, tally.drawn = [], []
    return BatchScores(loss=loss, counted=counted, sites=collector.sites, changes=changes, drawn=drawn, missed=missed)


def changes_of(batches: Sequence[BatchScores], choices: Sequence[tuple[Sequence[str], str]]) -> list[Change]:
    """What each candidate does to the mean loss where all of its sites have it.

    The changes of a group's sites are added before they are squared: what one of them does to a term the other may
    undo.

    Args:
        batches: that were measured.
        choices: sites, and the candidate that they have.
    """
    found = [_changes_in(batch, choices) for batch in batches]
    count = len(found)
    return [
        Change(
            curvature=sum(change.curvature for change in own) / count,
            slope=sum(change.slope for change in own) / count,
            variance=sum(change.variance for change in own) / count**2,
            beyond=sum(change.beyond for change in own) / count,
        )
        for own in zip(*found, strict=True)
    ]


def _changes_in(batch: BatchScores, choices: Sequence[tuple[Sequence[str], str]]) -> list[Change]:
    """Of one batch: choices about the same terms side by side, a few at a time."""
    found: dict[int, Change] = {}
    alike: dict[tuple[int, int], list[tuple[int, Tensor, Tensor]]] = {}
    for index, (sites, candidate) in enumerate(choices):
        here = [(site, candidate) for site in sites if site in batch.sites]
        changes, drawn = (_added([of[key] for key in here]) for of in (batch.changes, batch.drawn))
        rows = alike.setdefault((len(changes), len(drawn)), [])
        rows.append((index, changes, drawn))
        if len(rows) * max(len(changes), len(drawn)) > _AT_ONCE:
            _take(rows, batch, found)
    for rows in alike.values():
        _take(rows, batch, found)
    return [found[index] for index in range(len(choices))]


def _take(rows: list[tuple[int, Tensor, Tensor]], batch: BatchScores, found: dict[int, Change]) -> None:
    if rows:
        indices, changes, drawn = zip(*rows, strict=True)
        found |= zip(indices, _side_by_side(torch.stack(changes), torch.stack(drawn), batch), strict=True)
        rows.clear()


def _side_by_side(changes: Tensor, drawn: Tensor, batch: BatchScores) -> list[Change]:
    """Of choices [K, terms] about the same terms."""
    terms, samples = batch.counted.terms, batch.counted.samples
    # Terms of one sample are not independent: tokens of a sequence read one another.
    own = changes.shape[1] == terms and samples > 0 and terms % samples == 0
    sums = changes.unflatten(1, (samples, -1)).sum(2) if own else changes
    count = sums.shape[1]
    spread = sums.var(1) * count / terms**2 if count > 1 else changes.new_full((len(changes),), torch.inf)
    columns = (
        0.5 * drawn.square().sum(1) / terms,
        changes.sum(1) / terms,
        spread,
        beyond_second(changes, batch.missed) / terms,
    )
    return [
        Change(curvature=curvature, slope=slope, variance=variance, beyond=beyond)
        for curvature, slope, variance, beyond in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _added(parts: Sequence[Tensor]) -> Tensor:
    """Changes of the same terms added; of others, side by side."""
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    same = len({len(part) for part in parts}) == 1
    return torch.stack(list(parts)).sum(0) if same else torch.cat(list(parts))
