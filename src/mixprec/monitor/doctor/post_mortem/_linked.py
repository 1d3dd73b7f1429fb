"""Incidents of the same run that may have the same cause."""

from __future__ import annotations

from ....records import IncidentRecord
from ._case import Case


def linked(case: Case) -> list[tuple[IncidentRecord, str]]:
    """Incidents that share trigger or layer with this one, oldest first, and in words what they share."""
    found: list[tuple[IncidentRecord, str]] = []
    for number in sorted(case.run.incidents):
        other = case.run.incidents[number]
        shared = _shared(case.incident, other)
        if number != case.incident.number and shared:
            found.append((other, shared))
    return found


def _shared(one: IncidentRecord, other: IncidentRecord) -> str:
    parts = ["trigger"] if one.trigger == other.trigger else []
    if one.site and one.site == other.site:
        parts.append("site")
    elif one.site and _layer(one) == _layer(other):
        parts.append("layer")
    return f"same {' and '.join(parts)}" if parts else ""


def _layer(incident: IncidentRecord) -> str:
    """The site without its role."""
    return incident.site.partition(" (")[0]
