"""What happened in a run's steps, and which runs ended ill: alike events as one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mixprec.records import EventRecord, RecipeRecords, Summary

#: Lines that a page holds; the rest is in the records.
SHOWN_EVENTS = 200


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


def event_lines(recipes: Mapping[str, RecipeRecords]) -> Iterable[EventLine]:
    """Events of each recipe, one line for each name and site; findings have a table of their own."""
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


def end_lines(summary: Summary) -> Iterable[EventLine]:
    """Runs that failed or diverged, one line for each recipe and way, with the first reason."""
    for row in summary.rows:
        for status in ("failed", "diverged"):
            runs = [run for run in row.runs if run.status == status]
            if runs:
                steps = sorted({run.steps for run in runs})
                yield EventLine(
                    recipe=row.recipe,
                    name=f"run {status}",
                    site="",
                    times=len(runs),
                    steps=str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}",
                    message=next(iter(runs[0].reason.splitlines()), "no reason was told"),
                    details="",
                )


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
