"""An incident in words: what it was, what came of it, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._types import IncidentOutcome, IncidentRecord
from ._wording import count, duration

_OUTCOMES: Mapping[IncidentOutcome, str] = MappingProxyType(
    {
        "open": "open",
        "recovered": "recovered",
        "again": "came again",
        "stopped": "stopped the run",
        "rehearsed": "rehearsed",
    }
)
_UNRESOLVED: frozenset[IncidentOutcome] = frozenset(("open", "stopped"))


def is_unresolved(incident: IncidentRecord) -> bool:
    """Whether it was not overcome: it is open still, or the run was stopped over it."""
    return incident.outcome in _UNRESOLVED


def incident_cause(incident: IncidentRecord) -> str:
    """What was seen, and where that is known."""
    return f"{incident.trigger} at {incident.site}" if incident.site else incident.trigger


def incident_outcome(incident: IncidentRecord) -> str:
    """What came of it, and when; an open one may become anything yet."""
    told = _OUTCOMES[incident.outcome]
    return told if incident.resolved is None else f"{told} at step {incident.resolved}"


def incident_cost(incident: IncidentRecord) -> str:
    """Steps and seconds that it cost; empty where it cost nothing."""
    parts = [count(incident.lost_steps, "step")] if incident.lost_steps else []
    parts += [duration(incident.lost_seconds)] if incident.lost_seconds else []
    return f"{' and '.join(parts)} lost" if parts else ""


def incident_text(incident: IncidentRecord) -> str:
    """All of it in one line; its step is left to whoever shows it.

    Example:
        >>> print(incident_text(IncidentRecord(
        ...     recipe="fp8", seed=0, number=2, step=412, trigger="loss spike", site="", evidence={"loss": 9.1},
        ...     rung="rewind", action="back to step 400, batches 409 to 411 left out", back_to=400,
        ...     batches=(409, 410, 411), lost_steps=12, lost_seconds=3.2, outcome="recovered", resolved=430,
        ... )))
        incident 2: loss spike; rewind: back to step 400, batches 409 to 411 left out; recovered at step 430; 12 steps and 3.20 s lost
    """  # noqa: E501
    action = incident.action.strip().rstrip(".")
    parts = [
        f"incident {incident.number}: {incident_cause(incident)}",
        f"{incident.rung}: {action}" if action else incident.rung,
        incident_outcome(incident),
        incident_cost(incident),
    ]
    return "; ".join(part for part in parts if part)
