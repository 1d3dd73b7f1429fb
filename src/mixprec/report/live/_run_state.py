"""What is shown of a run: the newest of everything, in bounded memory."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TypeVar

from mixprec.records import (
    RESUMED,
    ComparisonRecord,
    EvaluationRecord,
    EventRecord,
    FindingRecord,
    IncidentRecord,
    Record,
    RunEndRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
)

from ._curve import Curve

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: Findings, events and incidents that are kept; a screen shows a few.
_NEWEST = 50
#: Tensors that are kept: of a model with more sites, those that were told last.
_TENSORS = 20_000
#: Weight of a new step in the average time of a step.
_FRESH = 0.1


@dataclass(kw_only=True)
class RunState:
    """One recipe's run under one seed, as its newest records show it."""

    recipe: str
    seed: int
    last: StepRecord | None = None
    seconds: float | None = None
    applied: int = 0
    skipped: int = 0
    loss: Curve = field(default_factory=Curve)
    losses: dict[str, float] = field(default_factory=dict[str, float])
    loss_scale: Curve = field(default_factory=Curve)
    evaluation: EvaluationRecord | None = None
    tensors: dict[tuple[str, str], StatisticsRecord] = field(default_factory=dict[tuple[str, str], StatisticsRecord])
    updates: dict[str, UpdateRecord] = field(default_factory=dict[str, UpdateRecord])
    findings: deque[FindingRecord] = field(default_factory=lambda: deque[FindingRecord](maxlen=_NEWEST))
    severities: Counter[str] = field(default_factory=Counter[str])
    events: deque[EventRecord] = field(default_factory=lambda: deque[EventRecord](maxlen=_NEWEST))
    incidents: dict[int, IncidentRecord] = field(default_factory=dict[int, IncidentRecord])
    end: RunEndRecord | None = None
    _skips: deque[int] = field(default_factory=lambda: deque[int](maxlen=100_000))

    def take(self, record: Record) -> None:
        """Take in one record of this run."""
        match record:
            case StepRecord():
                self._step(record)
            case EvaluationRecord() if record.forward == "recipe":
                self.evaluation = record
            case StatisticsRecord() if record.in_use:
                _keep(self.tensors, (record.site, record.role), record)
            case UpdateRecord():
                _keep(self.updates, record.site, record)
            case FindingRecord():
                self.findings.append(record)
                self.severities[record.severity] += 1
            case EventRecord():
                if record.name == RESUMED:
                    self._resume(record.step)
                self.events.append(record)
            case IncidentRecord():
                # The later record of a number takes the place of the earlier one.
                self.incidents[record.number] = record
                if len(self.incidents) > _NEWEST:
                    del self.incidents[min(self.incidents)]
            case RunEndRecord():
                self.end = record
            case _:
                pass

    def _step(self, record: StepRecord) -> None:
        if self.last is not None and record.step < self.last.step:
            self._resume(record.step)  # the run went back, and nobody said so before
        self.last, self.end = record, None
        self.seconds = record.seconds if self.seconds is None else (1 - _FRESH) * self.seconds + _FRESH * record.seconds
        self.applied += record.applied
        if not record.applied:
            self.skipped += 1
            self._skips.append(record.step)
        self.losses.update(record.losses)
        if record.loss is not None:
            self.loss.add(record.step, record.loss)
        if record.loss_scale is not None:
            self.loss_scale.add(record.step, record.loss_scale)

    def _resume(self, step: int) -> None:
        """What was told from a step on is replaced by what follows."""
        kept = [at for at in self._skips if at < step]
        self.skipped -= len(self._skips) - len(kept)
        self._skips = deque(kept, maxlen=self._skips.maxlen)
        self.applied = min(self.applied, step)
        self.loss.forget_from(step)
        self.loss_scale.forget_from(step)
        later = [finding for finding in self.findings if finding.step >= step]
        self.severities.subtract(finding.severity for finding in later)
        self.findings = deque((f for f in self.findings if f.step < step), maxlen=_NEWEST)
        self.events = deque((e for e in self.events if e.step < step), maxlen=_NEWEST)
        self.tensors = {key: record for key, record in self.tensors.items() if record.step < step}
        self.updates = {key: record for key, record in self.updates.items() if record.step < step}
        self.losses.clear()
        self.last, self.end, self.seconds = None, None, None


class RunsState:
    """All runs of a folder: one for a session, several for a comparison.

    Example:
        >>> state = RunsState()
        >>> state.take(RunEndRecord(recipe="bf16", seed=0, status="done"))
        >>> state.newest.recipe, state.is_over
        ('bf16', False)
    """

    def __init__(self) -> None:
        self.header: ComparisonRecord | None = None
        self.runs: dict[tuple[str, int], RunState] = {}
        self._newest: tuple[str, int] | None = None

    def take(self, record: Record) -> None:
        """Take in one record."""
        if isinstance(record, ComparisonRecord):
            self.header = record
            return
        key = record.recipe, record.seed
        self.runs.setdefault(key, RunState(recipe=record.recipe, seed=record.seed)).take(record)
        self._newest = key

    @property
    def newest(self) -> RunState | None:
        """The run that the last record is of."""
        return None if self._newest is None else self.runs[self._newest]

    @property
    def is_over(self) -> bool:
        """Whether a comparison has ended; a session does not say when it will not go on."""
        if self.header is None:
            return False
        planned = [(recipe, seed) for recipe in self.header.recipes for seed in self.header.seeds]
        return all(key in self.runs and self.runs[key].end is not None for key in planned)


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """The newest last, the oldest out."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _TENSORS:
        del kept[next(iter(kept))]
