"""From what a pass showed to the scores of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._collector import Collector, SiteTally
from ._terms import by_term


@dataclass(frozen=True, kw_only=True)
class BatchScores:
    """One batch.

    Attributes:
        loss: unrounded.
        terms: that it averages over.
        sites: what was summed of each.
        projections: by site and candidate: [terms], the change of each term to first order.
    """

    loss: float
    terms: int
    sites: Mapping[str, SiteTally]
    projections: Mapping[tuple[str, str], Tensor]


def score_batch(loss: float, collector: Collector, terms: int) -> BatchScores:
    """The scores of a batch whose loss averages over ``terms`` terms."""
    projections: dict[tuple[str, str], Tensor] = {}
    for name, site in collector.sites.items():
        for candidate, tally in site.candidates.items():
            calls = [by_term(p, terms).double().mul_(terms) for p in tally.projections]
            projections[name, candidate] = added(calls)
            tally.projections.clear()
    return BatchScores(loss=loss, terms=terms, sites=collector.sites, projections=projections)


def added(parts: Sequence[Tensor]) -> Tensor:
    """Changes of the same terms added; of others, side by side."""
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    same = len({len(part) for part in parts}) == 1
    return torch.stack(list(parts)).sum(0) if same else torch.cat(list(parts))
