"""The loss scale, and what happened, on the axis of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mixprec.records import EventRecord, FindingRecord, StepRecord

from .._smoothing import thin

#: Kinds of marks that have a row of their own, and marks of one kind that are drawn.
_ROWS, _MARKS = 8, 400
#: Points of the loss scale's line that are kept between its changes.
_POINTS = 600


def timeline(
    steps: Mapping[int, StepRecord], events: Sequence[EventRecord], findings: Sequence[FindingRecord]
) -> dict[str, Any] | None:
    """A run's loss scale and marks, as JSON can hold them; ``None`` where there is neither.

    Args:
        steps: of the run, by their number.
        events: of the run; a finding that was also told as an event is one mark.
        findings: of the run.

    Returns:
        ``scale`` (``x`` and ``y`` of its changes, both ends of each level), and ``rows`` of ``name``, ``kind``
        (``event`` or a severity), ``x`` and ``text``.
    """
    found = {(finding.name, finding.step) for finding in findings}
    others = [event for event in events if (event.name, event.step) not in found]
    rows = [*_finding_rows(findings), *_event_rows(others)][:_ROWS]
    scale = _levels({step: record.loss_scale for step, record in steps.items() if record.loss_scale is not None})
    if not rows and not scale["x"]:
        return None
    return {"scale": scale, "rows": rows, "steps": [0, max(steps, default=0) + 1]}


def _levels(scales: dict[int, float]) -> dict[str, list[float]]:
    """The first step, the last, and those around each change."""
    ordered = sorted(scales.items())
    kept = {
        step: value
        for i, (step, value) in enumerate(ordered)
        if i in (0, len(ordered) - 1) or value != ordered[i - 1][1] or value != ordered[i + 1][1]
    }
    thinned = thin(kept, _POINTS)
    return {"x": list(thinned), "y": list(thinned.values())}


def _finding_rows(findings: Iterable[FindingRecord]) -> list[dict[str, Any]]:
    return _rows((finding.name, finding.severity, finding.step, _text(finding)) for finding in findings)


def _event_rows(events: Iterable[EventRecord]) -> list[dict[str, Any]]:
    return _rows((event.name, "event", event.step, _text(event)) for event in events)


def _rows(marks: Iterable[tuple[str, str, int, str]]) -> list[dict[str, Any]]:
    by_kind: dict[tuple[str, str], dict[str, Any]] = {}
    for name, kind, step, text in marks:
        row = by_kind.setdefault((name, kind), {"name": name, "kind": kind, "x": [], "text": []})
        if len(row["x"]) < _MARKS:
            row["x"].append(step)
            row["text"].append(text)
    return list(by_kind.values())


def _text(record: FindingRecord | EventRecord) -> str:
    where = f"{record.site}: " if record.site and record.site not in record.message else ""
    lines = record.message.strip().splitlines() or [""]
    return f"{where}{lines[-1]}"
