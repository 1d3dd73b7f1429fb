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


def change_of(batches: Sequence[BatchScores], sites: Sequence[str], candidate: str) -> Change:
    """What a candidate does to the mean loss where all of these sites have it.

    The changes of a group's sites are added before they are squared: what one of them does to a term the other may
    undo.
    """
    found: list[Change] = []
    for batch in batches:
        here = [(site, candidate) for site in sites if site in batch.sites]
        changes, drawn = (_added([of[key] for key in here]) for of in (batch.changes, batch.drawn))
        found.append(_change_in(changes, drawn, batch))
    count = len(found)
    return Change(
        curvature=sum(change.curvature for change in found) / count,
        slope=sum(change.slope for change in found) / count,
        variance=sum(change.variance for change in found) / count**2,
        beyond=sum(change.beyond for change in found) / count,
    )


def _change_in(changes: Tensor, drawn: Tensor, batch: BatchScores) -> Change:
    terms, samples = batch.counted.terms, batch.counted.samples
    # Terms of one sample are not independent: tokens of a sequence read one another.
    own = len(changes) == terms and samples > 0 and terms % samples == 0
    sums = changes.reshape(samples, -1).sum(1) if own else changes
    spread = float(sums.var()) * len(sums) / terms**2 if len(sums) > 1 else float("inf")
    curvature = 0.5 * float(drawn.square().sum()) / terms
    beyond = beyond_second(changes, batch.missed) / terms
    return Change(curvature=curvature, slope=float(changes.sum()) / terms, variance=spread, beyond=beyond)


def _added(parts: Sequence[Tensor]) -> Tensor:
    """Changes of the same terms added; of others, side by side."""
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    same = len({len(part) for part in parts}) == 1
    return torch.stack(list(parts)).sum(0) if same else torch.cat(list(parts))
