"""Which incident a page is about, and the run that it happened in."""

from __future__ import annotations

from dataclasses import dataclass

from ....records import ComparisonRecord, IncidentRecord, Record
from .._contents import OneRun, RunContents


@dataclass(frozen=True, kw_only=True)
class Case:
    """An incident in its run.

    Attributes:
        contents: of the run folder.
        run: one recipe under one seed.
        incident: as it was written last.
        history: the run's records as they were written, those that others have replaced too.
    """

    contents: RunContents
    run: OneRun
    incident: IncidentRecord
    history: tuple[Record, ...]

    @property
    def begun(self) -> int:
        """Where in the history the incident was written first."""
        return next(i for i, record in enumerate(self.history) if _is(record, self.incident.number))

    @property
    def begun_next(self) -> int:
        """Where the next incident was written first; without one the history's end."""
        others = (
            i
            for i, record in enumerate(self.history)
            if i > self.begun and isinstance(record, IncidentRecord) and record.number > self.incident.number
        )
        return next(others, len(self.history))


def find_case(contents: RunContents, number: int, recipe: str | None, seed: int | None) -> Case:
    """The incident of a number, in the run that was asked for.

    Raises:
        ValueError: no run of that recipe and seed, none of its incidents has that number, or several runs have one.
    """
    runs = [run for run in contents.runs if recipe in (None, run.recipe) and seed in (None, run.seed)]
    if not runs:
        asked = " ".join([f"recipe {recipe}"] * (recipe is not None) + [f"seed {seed}"] * (seed is not None))
        raise ValueError(f"{contents.path} has no run of {asked}: it has {_runs(contents.runs)}")
    having = [run for run in runs if number in run.incidents]
    if not having:
        raise ValueError(f"{contents.path} has no incident {number}: {_known(runs)}")
    if len(having) > 1:
        raise ValueError(
            f"incident {number} is in {len(having)} runs of {contents.path} ({_runs(having)}): choose one by --recipe "
            "and --seed"
        )
    run = having[0]
    return Case(contents=contents, run=run, incident=run.incidents[number], history=_history(contents, run))


def _history(contents: RunContents, run: OneRun) -> tuple[Record, ...]:
    return tuple(
        record
        for record in contents.records
        if not isinstance(record, ComparisonRecord) and (record.recipe, record.seed) == (run.recipe, run.seed)
    )


def _is(record: Record, number: int) -> bool:
    return isinstance(record, IncidentRecord) and record.number == number


def _runs(runs: tuple[OneRun, ...] | list[OneRun]) -> str:
    return ", ".join(f"{run.recipe} seed {run.seed}" for run in runs)


def _known(runs: list[OneRun]) -> str:
    """The incidents that there are."""
    having = [run for run in runs if run.incidents]
    if not having:
        return "no guard has recorded any"
    told = [f"{', '.join(map(str, sorted(run.incidents)))}" for run in having]
    if len(having) == 1:
        return f"there are {told[0]}"
    return "there are " + "; ".join(f"{numbers} of {_runs([run])}" for numbers, run in zip(told, having, strict=True))
