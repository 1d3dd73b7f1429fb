"""Records sorted by recipe, so that a summary can look them up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ._event_names import RESUMED
from ._types import (
    ComparisonRecord,
    CoverageRecord,
    EvaluationRecord,
    EventRecord,
    FindingRecord,
    Forward,
    IncidentRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
)


@dataclass(kw_only=True)
class RecipeRecords:
    """One recipe's records by seed; where one was written twice, the later stands.

    Where a run was resumed, what was recorded from that step on is forgotten: what follows replaces it. Incidents stay:
    they tell why a run went back.
    """

    steps: dict[int, dict[int, StepRecord]] = field(default_factory=dict[int, dict[int, StepRecord]])
    evaluations: dict[tuple[int, int, Forward], EvaluationRecord] = field(
        default_factory=dict[tuple[int, int, Forward], EvaluationRecord]
    )
    events: list[EventRecord] = field(default_factory=list[EventRecord])
    coverage: dict[int, CoverageRecord] = field(default_factory=dict[int, CoverageRecord])
    memory: dict[int, MemoryRecord] = field(default_factory=dict[int, MemoryRecord])
    statistics: list[StatisticsRecord] = field(default_factory=list[StatisticsRecord])
    updates: list[UpdateRecord] = field(default_factory=list[UpdateRecord])
    findings: list[FindingRecord] = field(default_factory=list[FindingRecord])
    incidents: dict[tuple[int, int], IncidentRecord] = field(default_factory=dict[tuple[int, int], IncidentRecord])
    ends: dict[int, RunEndRecord] = field(default_factory=dict[int, RunEndRecord])

    def add(self, record: Record) -> None:
        """Take in one record of this recipe."""
        match record:
            case StepRecord():
                self.steps.setdefault(record.seed, {})[record.step] = record
            case EvaluationRecord():
                self.evaluations[record.seed, record.step, record.forward] = record
            case EventRecord():
                if record.name == RESUMED:
                    self._forget(record.seed, record.step)
                self.events.append(record)
            case CoverageRecord():
                self.coverage[record.seed] = record
            case MemoryRecord():
                self.memory[record.seed] = record
            case StatisticsRecord():
                self.statistics.append(record)
            case UpdateRecord():
                self.updates.append(record)
            case FindingRecord():
                self.findings.append(record)
            case IncidentRecord():
                self.incidents[record.seed, record.number] = record
            case RunEndRecord():
                self.ends[record.seed] = record
            case ComparisonRecord():
                pass

    def _forget(self, seed: int, step: int) -> None:
        """Drop what a seed's run recorded from a step on; an evaluation at that step was made before it."""
        self.steps[seed] = {at: record for at, record in self.steps.get(seed, {}).items() if at < step}
        self.events = _before(step, seed, self.events)
        self.statistics = _before(step, seed, self.statistics)
        self.updates = _before(step, seed, self.updates)
        self.findings = _before(step, seed, self.findings)
        self.evaluations = {key: record for key, record in self.evaluations.items() if key[0] != seed or key[1] <= step}

    def seeds(self, planned: Iterable[int] = ()) -> list[int]:
        """The planned seeds, then those that have records beside them."""
        found = [*self.steps, *(key[0] for key in self.evaluations), *self.coverage, *self.memory, *self.ends]
        return list(dict.fromkeys((*planned, *found)))


_Told = TypeVar("_Told", EventRecord, StatisticsRecord, UpdateRecord, FindingRecord)


def _before(step: int, seed: int, records: list[_Told]) -> list[_Told]:
    """Those of other seeds, and those that this one recorded before a step."""
    return [record for record in records if record.seed != seed or record.step < step]


def group_by_recipe(records: Iterable[Record]) -> tuple[ComparisonRecord, dict[str, RecipeRecords]]:
    """The comparison (the last one told; else what the records show of one), and the records of each recipe."""
    header: ComparisonRecord | None = None
    by_recipe: dict[str, RecipeRecords] = {}
    for record in records:
        if isinstance(record, ComparisonRecord):
            header = record
        else:
            by_recipe.setdefault(record.recipe, RecipeRecords()).add(record)
    if header is None:
        header = _shown_by(by_recipe)
    ordered = {name: by_recipe.get(name, RecipeRecords()) for name in (*header.recipes, *by_recipe)}
    if header.baseline not in ordered and ordered:
        header = replace(header, baseline=next(iter(ordered)))
    return header, ordered


def _shown_by(by_recipe: dict[str, RecipeRecords]) -> ComparisonRecord:
    seeds = sorted({seed for own in by_recipe.values() for seed in own.seeds()})
    last = [step for own in by_recipe.values() for steps in own.steps.values() for step in steps]
    return ComparisonRecord(
        workload="",
        recipes=tuple(by_recipe),
        baseline=next(iter(by_recipe), ""),
        seeds=tuple(seeds),
        steps=max(last, default=-1) + 1,
        machine={},
        versions={},
        data={},
    )
