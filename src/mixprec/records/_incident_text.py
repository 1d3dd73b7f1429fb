"""An incident in words: what it was, what came of it, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
    return _cost(incident.lost_steps, incident.lost_seconds)


def _cost(steps: int, seconds: float) -> str:
    parts = [count(steps, "step")] if steps else []
    parts += [duration(seconds)] if seconds else []
    return f"{' and '.join(parts)} lost" if parts else ""


def incidents_text(incidents: Iterable[IncidentRecord]) -> str:
    """Several together: how many, what came of them, what they cost; empty for none.

    Example:
        >>> from dataclasses import replace
        >>> first = IncidentRecord(
        ...     recipe="fp8", seed=0, number=1, step=3, trigger="loss spike", site="", evidence={}, rung="skip",
        ...     action="", lost_steps=1, outcome="recovered",
        ... )
        >>> incidents_text([first, replace(first, number=2, outcome="stopped")])
        '2 incidents (1 recovered, 1 stopped the run; 2 steps lost)'
    """
    told = list(incidents)
    if not told:
        return ""
    outcomes = Counter(incident.outcome for incident in told)
    parts = ", ".join(f"{outcomes[name]} {words}" for name, words in _OUTCOMES.items() if outcomes[name])
    steps, seconds = sum(one.lost_steps for one in told), sum(one.lost_seconds for one in told)
    cost = _cost(steps, seconds)
    return f"{count(len(told), 'incident')} ({'; '.join(part for part in (parts, cost) if part)})"


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
