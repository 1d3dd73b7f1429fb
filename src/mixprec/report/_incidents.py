"""What guards have seen and done, as lines of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mixprec.records import (
    IncidentOutcome,
    IncidentRecord,
    RecipeRecords,
    incident_cost,
    incident_outcome,
    incidents_text,
)

from ._figures import magnitude

#: Lines that a page holds; the rest is in the records.
SHOWN_INCIDENTS = 200

#: Colour of an outcome, by the severity that it has.
_BADGES: Mapping[IncidentOutcome, str] = MappingProxyType(
    {"open": "warning", "recovered": "good", "again": "warning", "stopped": "fault", "rehearsed": "note"}
)


@dataclass(frozen=True, kw_only=True)
class IncidentLine:
    """One incident; ``badge`` is the colour of its outcome."""

    recipe: str
    seed: int
    number: int
    step: int
    trigger: str
    site: str
    rung: str
    action: str
    outcome: str
    badge: str
    cost: str
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Incidents:
    """The section: all together in words, by recipe, and line by line.

    Attributes:
        told: what there were of each recipe that has any.
        lines: recipe by recipe, seed by seed, in their order.
        left_out: how many more there are.
    """

    told: tuple[tuple[str, str], ...]
    lines: tuple[IncidentLine, ...]
    left_out: int


def incidents_section(recipes: Mapping[str, RecipeRecords]) -> Incidents | None:
    """The incidents of all recipes; ``None`` where there is none."""
    records = [own.incidents[key] for own in recipes.values() for key in sorted(own.incidents)]
    if not records:
        return None
    told = [(recipe, incidents_text(own.incidents.values())) for recipe, own in recipes.items() if own.incidents]
    return Incidents(
        told=tuple(told),
        lines=tuple(map(_line, records[:SHOWN_INCIDENTS])),
        left_out=max(0, len(records) - SHOWN_INCIDENTS),
    )


def _line(record: IncidentRecord) -> IncidentLine:
    return IncidentLine(
        recipe=record.recipe,
        seed=record.seed,
        number=record.number,
        step=record.step,
        trigger=record.trigger,
        site=record.site,
        rung=record.rung,
        action=record.action,
        outcome=incident_outcome(record),
        badge=_BADGES[record.outcome],
        cost=incident_cost(record),
        evidence=", ".join(
            f"{name} {magnitude(value) if isinstance(value, float | int) else value}"
            for name, value in record.evidence.items()
        ),
    )
