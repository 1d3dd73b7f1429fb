"""What the page shows, gathered from a run folder; the template only places it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mixprec.records import (
    EMULATED_NOTE,
    ComparisonRecord,
    EventRecord,
    RecipeRecords,
    RecipeSummary,
    Summary,
    Table,
    count,
    group_by_recipe,
    headline,
    memory_table,
    metrics_table,
    percent,
    seeds_table,
    sites_table,
    summarize,
    summary_table,
)

from ._curves import gap_chart, loss_chart
from ._folder import RunFolder
from ._memory_chart import memory_chart
from ._single_run import single_run
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
    """A recipe's result in words; ``caveat`` is what restricts it."""

    recipe: str
    text: str
    caveat: str


@dataclass(frozen=True, kw_only=True)
class EventLine:
    """Events of one kind at one site, as one line."""

    recipe: str
    name: str
    site: str
    times: int
    steps: str
    message: str
    details: str


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
    main: Table
    unresolved: frozenset[str]
    metrics: Table | None
    seeds: Table
    charts: Mapping[str, Any]
    has_skips: bool
    memory: Table | None
    sites: Mapping[str, Table]
    bars: tuple[Bar, ...]
    engine_words: str
    events: tuple[EventLine, ...]
    findings: tuple[FindingLine, ...]
    numbers: Numbers | None
    settings: tuple[tuple[str, str], ...]
    recipes: Mapping[str, str]


def make_page(folder: RunFolder) -> Page:
    """Gather a page from a run folder."""
    summary = summarize(folder.records)
    header, recipes = group_by_recipe(folder.records)
    formats = _formats(summary)
    # A session's folder has no comparison's header: it is told as the one run that it is.
    alone = single_run(folder.records, recipes, summary)
    return Page(
        kind="comparison" if alone is None else "run",
        title=summary.workload or folder.name,
        subtitle=_subtitle(summary) if alone is None else alone.subtitle,
        folder=folder.name,
        baseline=summary.baseline,
        order={row.recipe: index for index, row in enumerate(summary.rows)},
        headlines=tuple(_headline(row, summary) for row in summary.rows)
        if alone is None
        else (Headline(recipe=alone.recipe, text=alone.text, caveat=""),),
        main=summary_table(summary),
        unresolved=frozenset(row.recipe for row in summary.rows if _is_unresolved(row)),
        metrics=metrics_table(summary),
        seeds=seeds_table(summary),
        charts={
            "loss": loss_chart(summary, recipes),
            "gap": gap_chart(summary, recipes),
            "memory": memory_chart(summary),
        },
        has_skips=any(row.skipped_steps for row in summary.rows),
        memory=memory_table(summary),
        sites={row.recipe: table for row in summary.rows if (table := sites_table(row)) is not None},
        bars=tuple(_bar(row, formats) for row in summary.rows if row.flop_shares),
        engine_words=_engine_words(summary),
        events=tuple(_events(recipes)),
        findings=tuple(finding_lines(recipes)),
        numbers=gather(recipes),
        settings=tuple(_settings(header, summary)),
        recipes=folder.recipes,
    )


def _headline(row: RecipeSummary, summary: Summary) -> Headline:
    text, caveat, _ = headline(row, summary).partition(EMULATED_NOTE)
    return Headline(recipe=row.recipe, text=text, caveat=caveat)


def _subtitle(summary: Summary) -> str:
    recipes = count(len(summary.rows), "recipe")
    return f"{recipes}, {count(len(summary.seeds), 'seed')}, {count(summary.steps, 'step')} each"


def _is_unresolved(row: RecipeSummary) -> bool:
    gap = row.loss.gap if row.loss else None
    return gap is not None and gap.seeds > 0 and not gap.resolved and not gap.identical


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


def _events(recipes: Mapping[str, RecipeRecords]) -> Iterable[EventLine]:
    for recipe, own in recipes.items():
        alike: dict[tuple[str, str], list[EventRecord]] = {}
        # A session tells its findings as events too; the page has a table of their own for them.
        found = {(finding.name, finding.seed, finding.step) for finding in own.findings}
        for event in own.events:
            if (event.name, event.seed, event.step) in found:
                continue
            alike.setdefault((event.name, event.site), []).append(event)
        for (name, site), events in alike.items():
            yield _event_line(recipe, name, site, events)


def _event_line(recipe: str, name: str, site: str, events: list[EventRecord]) -> EventLine:
    first, last = min(event.step for event in events), max(event.step for event in events)
    # A traceback tells its cause in its last line.
    lines = events[0].message.strip().splitlines() or [""]
    return EventLine(
        recipe=recipe,
        name=name,
        site="" if site in events[0].message else site,
        times=len(events),
        steps=str(first) if first == last else f"{first} to {last}",
        message=lines[-1],
        details=events[0].message.strip() if len(lines) > 1 else "",
    )


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
