"""What the page shows, gathered from a run folder; the template only places it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mixprec.records import (
    EMULATED_NOTE,
    ComparisonRecord,
    RecipeSummary,
    Summary,
    Table,
    count,
    gaps_table,
    group_by_recipe,
    headline,
    is_gap_resolved,
    memory_table,
    metrics_table,
    percent,
    seeds_table,
    sites_table,
    summarize,
    summary_table,
    times_table,
    verdicts_table,
)

from ._curves import gap_chart, has_few_runs, loss_chart
from ._events import SHOWN_EVENTS, EventLine, end_lines, event_lines
from ._folder import RunFolder
from ._format_map import FormatMap, format_map
from ._incidents import Incidents, incidents_section
from ._interval_chart import IntervalChart, every_interval_chart, is_shown
from ._limits import limits
from ._memory_chart import memory_chart
from ._repeat import Repeat, repeat
from ._sentence import sentence
from ._single_run import single_run
from ._throughput_chart import throughput_chart
from ._times_chart import times_chart
from .estimates import estimates_chart, estimates_table, sites_tables
from .numbers import FindingLine, Numbers, finding_lines, gather

#: What a GEMM's engine is, in a sentence each.
ENGINES: Mapping[str, str] = MappingProxyType(
    {
        "native": "the device multiplies that format",
        "emulated": "operands were rounded exactly to the format and multiplied in a wider one, at its speed",
        "torch": "a product that the recipe did not reach; torch ran it as the model says",
    }
)


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A recipe's result in a sentence; ``details`` say it at length, ``caveat`` is what restricts it."""

    recipe: str
    text: str
    details: str = ""
    caveat: str = ""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A piece of a bar: ``width`` in percent, ``color`` the number of its format's colour."""

    name: str
    text: str
    width: float
    color: int


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Where one recipe's GEMM FLOPs run."""

    recipe: str
    shares: tuple[Share, ...]
    engines: str
    uncovered: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything that the template places."""

    kind: str
    title: str
    subtitle: str
    folder: str
    baseline: str
    order: Mapping[str, int]
    headlines: tuple[Headline, ...]
    limits: tuple[str, ...]
    verdicts: Table | None
    intervals: tuple[IntervalChart, ...]
    every_interval: tuple[IntervalChart, ...]
    gaps: Table | None
    times: Table | None
    format_map: FormatMap | None
    estimates: Table | None
    estimated_sites: Mapping[str, Table]
    repeat: Repeat | None
    left_out_events: int
    main: Table
    unresolved: frozenset[str]
    metrics: Table | None
    seeds: Table
    charts: Mapping[str, Any]
    has_skips: bool
    few_runs: bool
    memory: Table | None
    sites: Mapping[str, Table]
    bars: tuple[Bar, ...]
    engine_words: str
    events: tuple[EventLine, ...]
    findings: tuple[FindingLine, ...]
    incidents: Incidents | None
    numbers: Numbers | None
    settings: tuple[tuple[str, str], ...]
    recipes: Mapping[str, str]


def make_page(folder: RunFolder) -> Page:
    """Gather a page from a run folder."""
    summary = summarize(folder.records)
    header, recipes = group_by_recipe(folder.records)
    formats, events = _formats(summary), (*end_lines(summary), *event_lines(recipes))
    every_interval = every_interval_chart(summary)
    intervals = tuple(one for one in every_interval if is_shown(one, summary))
    order = {row.recipe: index for index, row in enumerate(summary.rows)}
    # A session's folder has no comparison's header: it is told as the one run that it is.
    alone = single_run(folder.records, recipes, summary)
    return Page(
        kind="comparison" if alone is None else "run",
        title=summary.workload or folder.name,
        subtitle=_subtitle(summary) if alone is None else alone.subtitle,
        folder=folder.name,
        baseline=summary.baseline,
        order=order,
        headlines=tuple(_headline(row, summary, folder) for row in summary.rows)
        if alone is None
        else (Headline(recipe=alone.recipe, text=alone.text),),
        limits=limits(folder, summary, recipes, folder.estimates),
        verdicts=verdicts_table(summary),
        intervals=intervals,
        every_interval=every_interval,
        gaps=gaps_table(summary),
        times=times_table(summary),
        format_map=format_map(recipes),
        estimates=estimates_table(folder.estimates, summary.baseline),
        estimated_sites=sites_tables(folder.estimates),
        repeat=repeat(folder, header),
        left_out_events=max(0, len(events) - SHOWN_EVENTS),
        main=summary_table(summary),
        unresolved=frozenset(row.recipe for row in summary.rows if _is_unresolved(row, summary)),
        metrics=metrics_table(summary),
        seeds=seeds_table(summary),
        charts={
            **{one.place: one.chart for one in intervals},
            "loss": loss_chart(summary, recipes),
            "gap": gap_chart(summary, recipes),
            "times": times_chart(summary),
            "throughput": throughput_chart(summary, recipes),
            "memory": memory_chart(summary),
            "estimates": estimates_chart(folder.estimates, summary.baseline, order),
        },
        few_runs=has_few_runs(recipes),
        has_skips=any(row.skipped_steps for row in summary.rows),
        memory=memory_table(summary),
        sites={row.recipe: table for row in summary.rows if (table := sites_table(row)) is not None},
        bars=tuple(_bar(row, formats) for row in summary.rows if row.flop_shares),
        engine_words=_engine_words(summary),
        events=events[:SHOWN_EVENTS],
        findings=tuple(finding_lines(recipes)),
        incidents=incidents_section(recipes),
        numbers=gather(recipes),
        settings=tuple(_settings(header, summary)),
        recipes=folder.recipes,
    )


def _headline(row: RecipeSummary, summary: Summary, folder: RunFolder) -> Headline:
    details, caveat, _ = headline(row, summary).partition(EMULATED_NOTE)
    text = sentence(row, summary, folder.estimates)
    return Headline(recipe=row.recipe, text=text, details=f"{row.recipe} {details.strip()}", caveat=caveat)


def _subtitle(summary: Summary) -> str:
    recipes = count(len(summary.rows), "recipe")
    return f"{recipes}, {count(len(summary.seeds), 'seed')}, {count(summary.steps, 'step')} each"


def _is_unresolved(row: RecipeSummary, summary: Summary) -> bool:
    gap = row.loss.gap if row.loss else None
    return gap is not None and gap.seeds > 0 and not gap.identical and not is_gap_resolved(row, "loss", summary)


def _formats(summary: Summary) -> tuple[str, ...]:
    """All formats, the most used first, so that each has one colour on the page."""
    totals: dict[str, float] = {}
    for row in summary.rows:
        for name, share in row.flop_shares.items():
            totals[name] = totals.get(name, 0.0) + share
    return tuple(sorted(totals, key=lambda name: -totals[name]))


def _bar(row: RecipeSummary, formats: tuple[str, ...]) -> Bar:
    shares = tuple(
        Share(name=name, text=percent(share), width=100 * share, color=formats.index(name))
        for name, share in row.flop_shares.items()
    )
    engines = ", ".join(f"{name} {percent(share)}" for name, share in row.engines.items())
    return Bar(recipe=row.recipe, shares=shares, engines=engines, uncovered=row.uncovered)


def _engine_words(summary: Summary) -> str:
    """What the engines' names mean, those that are on the page."""
    found = {name for row in summary.rows for name in row.engines}
    return " ".join(f"{name.capitalize()}: {words}." for name, words in ENGINES.items() if name in found)


def _settings(header: ComparisonRecord, summary: Summary) -> Iterable[tuple[str, str]]:
    yield "workload", header.workload or "not told"
    yield "baseline", header.baseline
    yield "seeds", ", ".join(map(str, header.seeds)) or "none"
    yield "steps", str(header.steps)
    for group in ("data", "machine", "versions"):
        facts: Mapping[str, str | int | float] = getattr(header, group)
        if facts:
            yield group, "\n".join(f"{name}: {value}" for name, value in facts.items())
    memory = max((row.rss_bytes or 0 for row in summary.rows), default=0)
    if memory:
        yield "process memory", f"{memory / 1e9:.2f} GB resident, all that it held together"
