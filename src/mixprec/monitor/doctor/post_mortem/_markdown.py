"""The page itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....records import (
    NOTHING,
    IncidentRecord,
    Table,
    count,
    duration,
    incident_cause,
    incident_cost,
    incident_outcome,
    incident_text,
    markdown_text,
    table_markdown,
)
from ._advice import Advice

_NAMED = 12


def page(
    path: Path,
    incident: IncidentRecord,
    timeline: Table,
    linked: Sequence[tuple[IncidentRecord, str]],
    advice: Advice,
) -> str:
    """One incident as Markdown: sentence, table, evidence, the run around it, what is linked, what to do."""
    parts = [
        f"# Incident {incident.number} of {markdown_text(path.name or str(path))}",
        markdown_text(_sentence(incident)),
        table_markdown(_facts(incident), texts=("incident",)),
        *_evidence(incident),
        "## The run around it",
        "In the order in which it was recorded; a step that going back has replaced is told so.",
        table_markdown(timeline, texts=("what",)),
        *_linked(incident, linked),
        *_advice(advice),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _sentence(incident: IncidentRecord) -> str:
    action = incident.action.strip().rstrip(".")
    parts = [
        f"Before step {incident.step} of {incident.recipe}, seed {incident.seed}, the guard saw "
        f"{incident_cause(incident)} and took the rung {incident.rung}" + (f": {action}" if action else ""),
        incident_outcome(incident),
        incident_cost(incident),
    ]
    return "; ".join(part for part in parts if part) + "."


def _facts(incident: IncidentRecord) -> Table:
    batches = ", ".join(map(str, incident.batches[:_NAMED]))
    more = f" and {len(incident.batches) - _NAMED} more" if incident.batches[_NAMED:] else ""
    rows = (
        ("seen", incident.trigger),
        ("step", str(incident.step)),
        ("site", incident.site or "not known"),
        ("rung", incident.rung),
        ("done", incident.action or NOTHING),
        ("went back to", NOTHING if incident.back_to is None else f"step {incident.back_to}"),
        ("batches left out", f"{batches}{more}" or "none"),
        ("lost steps", str(incident.lost_steps)),
        ("lost time", duration(incident.lost_seconds) if incident.lost_seconds else "none"),
        ("outcome", incident.outcome),
        ("resolved at", NOTHING if incident.resolved is None else f"step {incident.resolved}"),
    )
    return Table(headers=("", "incident"), rows=rows)


def _evidence(incident: IncidentRecord) -> Iterator[str]:
    yield "## Evidence"
    rows = tuple((name, _value(value)) for name, value in incident.evidence.items())
    yield table_markdown(Table(headers=("measured", "value"), rows=rows)) if rows else "Nothing was measured."


def _value(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _linked(incident: IncidentRecord, linked: Sequence[tuple[IncidentRecord, str]]) -> Iterator[str]:
    yield "## Linked incidents"
    if not linked:
        yield "None has the same trigger or layer."
        return
    shown = sorted(linked, key=lambda pair: abs(pair[0].number - incident.number))[:_NAMED]
    lines = [
        f"- {'before' if other.number < incident.number else 'after'}, at step {other.step} ({shared}): "
        f"{markdown_text(incident_text(other))}"
        for other, shared in sorted(shown, key=lambda pair: pair[0].number)
    ]
    if len(shown) < len(linked):
        lines.append(f"- and {count(len(linked) - len(shown), 'more incident')}")
    yield "\n".join(lines)


def _advice(advice: Advice) -> Iterator[str]:
    yield "## What to do"
    yield "\n".join(f"- {sentence}" for sentence in advice.sentences) or "- Nothing."
    if advice.rule:
        yield advice.about
        yield f"```toml\n{advice.rule.rstrip()}\n```"
