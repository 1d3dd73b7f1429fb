"""Which tensors a reader should look at first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mixprec.records import StatisticsRecord

from .._figures import decibels, magnitude, share


@dataclass(frozen=True, kw_only=True)
class WorstSite:
    """A tensor's figures.

    Attributes:
        site: module path and role.
        cast: in use there.
        cells: each figure in words, by its name.
        why: the names of the figures by which it is among the worst.
    """

    site: str
    cast: str
    cells: Mapping[str, str]
    why: frozenset[str]


def worst_sites(tensors: Iterable[StatisticsRecord], count: int) -> list[WorstSite]:
    """The tensors that saturate most, lose most to zero and have the most noise, a third each.

    Args:
        tensors: one record for each tensor.
        count: how many at most.

    Returns:
        Those that saturate first, then those that lose to zero, then the noisiest; fp32 tensors and others that
        nothing happened to come last.
    """
    tensors = list(tensors)
    ranked = {
        "saturated": sorted((t for t in tensors if t.saturated > 0), key=lambda t: -t.saturated),
        "flushed": sorted((t for t in tensors if t.flushed > 0), key=lambda t: -t.flushed),
        "SQNR": sorted((t for t in tensors if math.isfinite(t.sqnr_db)), key=lambda t: t.sqnr_db),
    }
    each = max(1, count // len(ranked))
    why: dict[int, set[str]] = {}
    for name, order in ranked.items():
        for tensor in order[:each]:
            why.setdefault(id(tensor), set()).add(name)
    # What is left of the room goes to the noisiest, then to the rest.
    for tensor in [*ranked["SQNR"], *tensors]:
        if len(why) >= count:
            break
        why.setdefault(id(tensor), set())
    by_id = {id(tensor): tensor for tensor in tensors}
    return [_row(by_id[key], reasons) for key, reasons in list(why.items())[:count]]


def _row(tensor: StatisticsRecord, why: set[str]) -> WorstSite:
    return WorstSite(
        site=f"{tensor.site} ({tensor.role})",
        cast=tensor.cast,
        cells={
            "saturated": share(tensor.saturated),
            "flushed": share(tensor.flushed),
            "SQNR": decibels(tensor.sqnr_db),
            "amax": magnitude(tensor.amax),
        },
        why=frozenset(why),
    )
