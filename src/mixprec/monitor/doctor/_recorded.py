"""What was found while the run was under way: recorded findings, and events that are worth a finding."""

from __future__ import annotations

from ...records import FindingRecord, Severity
from .._finding import Finding
from ..alarms import Thresholds
from ._contents import OneRun, RunContents

#: Events that tell of something that a reader should know, and how grave it is.
_EVENTS: dict[str, Severity] = {
    "loss scale ceiling": "note",
    "loss scale alarm": "warning",
    "buffer not given back": "warning",
    "backward failed": "warning",
    "step failed": "warning",
    "no gradient": "warning",
    "checkpoint damaged": "warning",
    "not restored": "warning",
    "not locked": "warning",
    "versions": "note",
}


def recorded_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """As they were written; a dump that was written is none of the run's faults."""
    found = [
        _finding(record) for record in run.findings if record.name != "recorder dump" and not _is_untrue(record, run)
    ]
    found += [
        Finding(step=e.step, name=e.name, severity=_EVENTS[e.name], site=e.site, message=e.message)
        for e in run.events
        if e.name in _EVENTS
    ]
    return found


def _finding(record: FindingRecord) -> Finding:
    return Finding(
        step=record.step,
        name=record.name,
        severity=record.severity,
        site=record.site,
        message=record.message,
        evidence=record.evidence,
        threshold=record.threshold,
        remedy=record.remedy,
        rule=record.rule,
    )


def _is_untrue(record: FindingRecord, run: OneRun) -> bool:
    """Skipped steps of a loop that skipped none: it stepped on what was not finite, which is told by itself."""
    return record.name == "steps skipped in a row" and all(step.applied for step in run.steps)
