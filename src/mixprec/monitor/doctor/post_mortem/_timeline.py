"""A run around an incident, in the order in which it was written: also steps that going back has replaced."""

from __future__ import annotations

from collections.abc import Sequence

from ....records import (
    NOTHING,
    RESUMED,
    EventRecord,
    FindingRecord,
    IncidentRecord,
    Record,
    StepRecord,
    Table,
    count,
    incident_outcome,
)
from ._case import Case

#: Steps before the incident and after it that are shown, and those around its number and its end when they come again.
_BEFORE, _AFTER, _AROUND = 5, 4, 1
#: Other lines that are shown, and characters of one.
_OTHERS, _TEXT = 20, 160

_HEADERS = ("step", "what", "loss", "gradient norm", "loss scale")


def timeline(case: Case) -> Table:
    """The lines around the incident; what lies between two is told as a number of steps."""
    history, kept = case.history, _kept_steps(case)
    first, last = min([*kept, case.begun]), _end(history, max([*kept, _last_told(case)]))
    others = [i for i in range(first, last + 1) if _is_worth_a_line(history, i)]
    # Those that are nearest say most.
    others = sorted(sorted(others, key=lambda i: abs(i - case.begun))[:_OTHERS])
    rows, left_out = list[tuple[str, ...]](), 0
    for i in range(first, last + 1):
        if i in kept or i in others:
            rows += [_gap(left_out)] if left_out else []
            rows.append(_row(case, i))
            left_out = 0
        else:
            left_out += isinstance(history[i], StepRecord)
    return Table(headers=_HEADERS, rows=tuple(rows))


def _kept_steps(case: Case) -> set[int]:
    """Where in the history the steps stand that are shown."""
    steps = [(i, record.step) for i, record in enumerate(case.history) if isinstance(record, StepRecord)]
    before, after = [pair for pair in steps if pair[0] < case.begun], [pair for pair in steps if pair[0] > case.begun]
    kept = {i for i, _ in (*before[-_BEFORE:], *after[:_AFTER])}
    for number in (case.incident.step, case.incident.resolved):
        if number is not None:
            kept |= {i for i, step in after if abs(step - number) <= _AROUND and i < _until(case)}
    return kept


def _end(history: Sequence[Record], last: int) -> int:
    """With what was told after the last line, before another step was taken."""
    steps = (i for i in range(last + 1, len(history)) if isinstance(history[i], StepRecord))
    return next(steps, len(history)) - 1


def _until(case: Case) -> int:
    """Where in the history the way of this incident ends: once it is decided and a few steps have followed."""
    decided = _last_told(case)
    steps = [i for i, record in enumerate(case.history) if i > decided and isinstance(record, StepRecord)]
    return steps[_AFTER] if len(steps) > _AFTER else len(case.history)


def _last_told(case: Case) -> int:
    """Where in the history the incident was written last."""
    number = case.incident.number
    return max(
        i for i, record in enumerate(case.history) if isinstance(record, IncidentRecord) and record.number == number
    )


def _is_worth_a_line(history: Sequence[Record], i: int) -> bool:
    record = history[i]
    if isinstance(record, EventRecord):
        # A session tells its findings as events too.
        return not any(
            isinstance(other, FindingRecord) and (other.name, other.step) == (record.name, record.step)
            for other in history[max(0, i - 50) : i + 50]
        )
    if isinstance(record, IncidentRecord):
        # What is written again to tell of one more batch says nothing new here.
        before = next((one for one in reversed(history[:i]) if _is_same(one, record)), None)
        return not isinstance(before, IncidentRecord) or before.outcome != record.outcome
    return isinstance(record, FindingRecord)


def _is_same(one: Record, other: IncidentRecord) -> bool:
    return isinstance(one, IncidentRecord) and one.number == other.number


def _row(case: Case, i: int) -> tuple[str, ...]:
    record = case.history[i]
    match record:
        case StepRecord():
            told = "" if record.applied else "skipped"
            replaced = "replaced later" if _is_replaced(case.history, i) else ""
            what = ", ".join(filter(None, (told, replaced))) or "step"
            return str(record.step), what, *map(_figure, (record.loss, record.grad_norm, record.loss_scale))
        case FindingRecord():
            what = f"{record.severity}: {record.name}: {_at(record.site, record.message)}{record.message}"
        case EventRecord():
            what = f"{record.name}: {_at(record.site, record.message)}{_last_line(record.message)}"
        case IncidentRecord():
            what = f"incident {record.number}: {record.trigger}, {record.rung}, {incident_outcome(record)}"
            at = record.step if record.resolved is None else record.resolved
            return str(at), _cut(what), "", "", ""
        case _:
            raise TypeError(f"a line of a timeline is no {type(record).__name__}")
    return str(record.step), _cut(what), "", "", ""


def _gap(steps: int) -> tuple[str, ...]:
    return "", f"… {count(steps, 'step')} …", "", "", ""


def _is_replaced(history: Sequence[Record], i: int) -> bool:
    step = history[i]
    return isinstance(step, StepRecord) and any(
        isinstance(record, EventRecord) and record.name == RESUMED and record.step <= step.step
        for record in history[i + 1 :]
    )


def _figure(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _at(site: str, message: str) -> str:
    return f"{site}: " if site and site not in message else ""


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
