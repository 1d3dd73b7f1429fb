"""The numbers of a run folder's runs, as the page needs them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixprec.records import RecipeRecords, StatisticsRecord

from .._figures import decibels, magnitude, share
from .._figures import scale as scale_words
from ._bands import bands
from ._site_map import site_map
from ._timeline import timeline

#: Samples of a run that the page holds, and tensors in all of them together: it must stay a file that opens at once.
_SAMPLES, _CELLS = 12, 6000

#: What the map shows first.
AS_TRAINED = "as trained"

#: A tensor of a run.
Tensor = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """A tensor's figures in words, for the table that says what the map shows."""

    site: str
    role: str
    cast: str
    flushed: str
    subnormal: str
    saturated: str
    sqnr: str
    amax: str
    elements: str


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the page's section holds.

    Attributes:
        runs: one for each recipe and seed that has statistics or a time axis, as JSON can hold it.
        rows: of the first run with statistics, its last sample as it was trained.
        step: of that sample.
        has_timeline: whether any run has marks or a loss scale.
    """

    runs: tuple[dict[str, Any], ...]
    rows: tuple[TensorRow, ...]
    step: int
    has_timeline: bool


def gather(recipes: Mapping[str, RecipeRecords]) -> Numbers | None:
    """Gather the section from records; ``None`` where nothing of it was recorded.

    A comparison has the time axis of a run only where it has statistics or findings: most of its runs have neither.
    """
    runs = list[dict[str, Any]]()
    rows, step = tuple[TensorRow, ...](), 0
    for recipe, own in recipes.items():
        for seed in own.seeds({record.seed for record in own.statistics}):
            statistics = [record for record in own.statistics if record.seed == seed]
            run = _run(recipe, seed, own, statistics)
            if run is None:
                continue
            runs.append(run)
            if statistics and not rows:
                step = max(record.step for record in statistics if record.in_use)
                rows = tuple(_row(record) for record in _in_use(statistics, step).values())
    if not runs:
        return None
    return Numbers(runs=tuple(runs), rows=rows, step=step, has_timeline=any(run["timeline"] for run in runs))


def _run(recipe: str, seed: int, own: RecipeRecords, statistics: Sequence[StatisticsRecord]) -> dict[str, Any] | None:
    steps = own.steps.get(seed, {})
    findings = [finding for finding in own.findings if finding.seed == seed]
    told = timeline(steps, [event for event in own.events if event.seed == seed], findings)
    has_scale = told is not None and bool(told["scale"]["x"])
    in_use = [record for record in statistics if record.in_use]
    if not in_use and not findings and not has_scale:
        return None
    tensors = list(dict.fromkeys((record.site, record.role) for record in in_use))
    casts = [AS_TRAINED, *dict.fromkeys(record.cast for record in statistics if not record.in_use)]
    scales = {step: record.loss_scale for step, record in steps.items()}
    by_step: dict[int, list[StatisticsRecord]] = {}
    for record in statistics:
        by_step.setdefault(record.step, []).append(record)
    return {
        "name": f"{recipe}, seed {seed}",
        "casts": casts,
        "tensors": [{"site": site, "role": role} for site, role in tensors],
        "map": site_map(tensors),
        "samples": [
            _sample(by_step[step], step, tensors, casts, scales.get(step)) for step in _sampled(in_use, len(tensors))
        ],
        "of": len({record.step for record in in_use}),
        "timeline": told,
    }


def _sampled(in_use: Sequence[StatisticsRecord], tensors: int) -> list[int]:
    """Which samples are kept: the first, the last, the worst by each figure, and others evenly between."""
    steps = sorted({record.step for record in in_use})
    room = max(2, min(_SAMPLES, _CELLS // max(1, tensors)))
    if len(steps) <= room:
        return steps
    worst = [
        max(in_use, key=lambda record: record.flushed).step,
        max(in_use, key=lambda record: record.saturated).step,
        min(in_use, key=lambda record: math.inf if math.isnan(record.sqnr_db) else record.sqnr_db).step,
    ]
    kept = list(dict.fromkeys([steps[-1], steps[0], *worst]))[:room]
    between = [steps[round(i * (len(steps) - 1) / (room - 1))] for i in range(room)]
    kept += [step for step in between if step not in kept][: room - len(kept)]
    return sorted(kept)


def _sample(
    statistics: Sequence[StatisticsRecord],
    step: int,
    tensors: Sequence[Tensor],
    casts: Sequence[str],
    loss_scale: float | None,
) -> dict[str, Any]:
    now = _in_use(statistics, step)
    what_if: dict[Tensor, dict[str, StatisticsRecord]] = {}
    for record in statistics:
        if not record.in_use:
            what_if.setdefault((record.site, record.role), {})[record.cast] = record
    cells = [
        _cell(now[tensor], [what_if.get(tensor, {}).get(cast) for cast in casts[1:]], loss_scale)
        if tensor in now
        else None
        for tensor in tensors
    ]
    return {"step": step, "scale": "" if loss_scale is None else scale_words(loss_scale), "cells": cells}


def _in_use(statistics: Sequence[StatisticsRecord], step: int) -> dict[Tensor, StatisticsRecord]:
    """Each tensor of a sample as it was trained; of two casts of one tensor, the noisier."""
    found: dict[Tensor, StatisticsRecord] = {}
    for record in statistics:
        key = record.site, record.role
        if record.step == step and record.in_use and (key not in found or record.sqnr_db < found[key].sqnr_db):
            found[key] = record
    return found


def _cell(
    record: StatisticsRecord, what_if: Sequence[StatisticsRecord | None], loss_scale: float | None
) -> dict[str, Any]:
    counts = {int(exponent): count for exponent, count in sorted(record.exponents.items(), key=lambda e: int(e[0]))}
    first, last = min(counts, default=0), max(counts, default=-1)
    return {
        "figures": [None if one is None else _figures(one) for one in (record, *what_if)],
        "first": first,
        "counts": [counts.get(exponent, 0) for exponent in range(first, last + 1)],
        "elements": record.elements,
        "zeros": share(record.zeros),
        "nonfinite": record.nonfinite,
        "amax": magnitude(record.amax),
        "bands": [
            [band.name, band.low, band.normal, band.high, share(band.flushed), share(band.subnormal), share(band.above)]
            for band in bands(counts, record.role, loss_scale)
        ],
    }


def _figures(record: StatisticsRecord) -> list[Any]:
    """Cast, flushed, subnormal, saturated and noise: numbers for the colours, words for the reader."""
    noise = record.sqnr_db
    return [
        record.cast,
        *(_rounded(value) for value in (record.flushed, record.subnormal, record.saturated)),
        None if math.isnan(noise) else "inf" if math.isinf(noise) and noise > 0 else round(noise, 1),
        share(record.flushed),
        share(record.subnormal),
        share(record.saturated),
        decibels(noise),
    ]


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.3g}")


def _row(record: StatisticsRecord) -> TensorRow:
    return TensorRow(
        site=record.site,
        role=record.role,
        cast=record.cast,
        flushed=share(record.flushed),
        subnormal=share(record.subnormal),
        saturated=share(record.saturated),
        sqnr=decibels(record.sqnr_db),
        amax=magnitude(record.amax),
        elements=f"{record.elements:,}",
    )
