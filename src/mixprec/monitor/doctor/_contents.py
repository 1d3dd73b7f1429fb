"""Reading a run folder, whatever state it is in."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from ...records import (
    RESUMED,
    ComparisonRecord,
    CoverageRecord,
    EventRecord,
    FindingRecord,
    IncidentRecord,
    LeftOut,
    Record,
    RecorderDump,
    RunEndRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    Writer,
    find_dumps,
    last_writer,
    read_dump,
    salvage_records,
)
from ...specs import Recipe

Kind = Literal["training", "comparison"]

_RECORDS, _DUMPS, _RECIPE = "records.jsonl", "recorder", "recipe.toml"
# A checkpoint's folder; one that a kill left half has another name.
_CHECKPOINT = re.compile(r"step-(\d{8,})(-\d+)?")
#: Lines of one file that are named one by one.
_NAMED = 5


@dataclass(kw_only=True)
class OneRun:
    """One recipe under one seed: everything that still holds of it, in the order in which it was written.

    Where a run was resumed, what was recorded from that step on is forgotten: what follows replaces it. Unlike a
    summary this keeps skipped steps, which share their number with the applied one. Incidents stay, by their number.
    """

    recipe: str
    seed: int
    steps: list[StepRecord] = field(default_factory=list[StepRecord])
    events: list[EventRecord] = field(default_factory=list[EventRecord])
    statistics: list[StatisticsRecord] = field(default_factory=list[StatisticsRecord])
    updates: list[UpdateRecord] = field(default_factory=list[UpdateRecord])
    findings: list[FindingRecord] = field(default_factory=list[FindingRecord])
    incidents: dict[int, IncidentRecord] = field(default_factory=dict[int, IncidentRecord])
    coverage: CoverageRecord | None = None
    end: RunEndRecord | None = None

    def add(self, record: Record) -> None:
        """Take in one record."""
        match record:
            case StepRecord():
                self.steps.append(record)
            case EventRecord():
                if record.name == RESUMED:
                    self._forget(record.step)
                self.events.append(record)
            case StatisticsRecord():
                self.statistics.append(record)
            case UpdateRecord():
                self.updates.append(record)
            case FindingRecord():
                self.findings.append(record)
            case IncidentRecord():
                self.incidents[record.number] = record
            case CoverageRecord():
                self.coverage = record
            case RunEndRecord():
                self.end = record
            case _:
                pass

    def _forget(self, step: int) -> None:
        self.steps, self.events = _before(step, self.steps), _before(step, self.events)
        self.statistics, self.updates = _before(step, self.statistics), _before(step, self.updates)
        self.findings = _before(step, self.findings)


_Told = TypeVar("_Told", StepRecord, EventRecord, StatisticsRecord, UpdateRecord, FindingRecord)


def _before(step: int, records: list[_Told]) -> list[_Told]:
    return [record for record in records if record.step < step]


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """What could be read of a run folder.

    Attributes:
        path: of the folder.
        kind: whether it holds one training or a comparison of several.
        header: of a comparison.
        records: every line as it was written, those that others have replaced too.
        runs: each recipe under each seed.
        recipes: by name, as far as their files can be read.
        versions: of packages, the machine and so on; empty where unknown.
        dumps: of the flight recorder, oldest first, by their folders.
        checkpoint: step of the newest checkpoint that a session has saved in the folder; ``None``: there is none.
        is_sessions: whether a session wrote it, and not a monitor of somebody's own loop.
        written: when the records were last written, in the machine's own time; empty where there are none.
        writer: whoever wrote the folder last; ``None`` where unknown.
        left_out: what could not be read, one sentence each.
    """

    path: Path
    kind: Kind
    header: ComparisonRecord | None
    records: tuple[Record, ...]
    runs: tuple[OneRun, ...]
    recipes: Mapping[str, Recipe]
    versions: Mapping[str, Any]
    dumps: Mapping[Path, RecorderDump]
    checkpoint: int | None
    is_sessions: bool
    written: str
    writer: Writer | None
    left_out: tuple[str, ...]


def read_run(path: str | Path) -> RunContents:
    """Read a run folder: each line, dump and recipe for itself; what cannot be read is told and left out.

    Raises:
        ValueError: it is no run folder, is empty, or nothing in it can be read; the message says which.
        OSError: it cannot be opened.
    """
    folder = Path(path)
    _refuse_other(folder)
    records, left_out = _records(folder / _RECORDS)
    dumps, damaged = _dumps(folder)
    if not records and not dumps:
        reasons = [*left_out, *damaged] or [f"{folder / _RECORDS} is empty: the run has recorded nothing yet"]
        raise ValueError(f"{folder}: nothing of this run can be read: {'; '.join(reasons)}")
    recipes, unread = _recipes(folder)
    header = next((record for record in reversed(records) if isinstance(record, ComparisonRecord)), None)
    return RunContents(
        path=folder,
        kind="training" if header is None else "comparison",
        header=header,
        records=records,
        runs=_grouped(records, dumps.values()),
        recipes=recipes,
        versions=_versions(folder, header, unread),
        dumps=dumps,
        checkpoint=_checkpoint(folder),
        is_sessions=(folder / _RECIPE).exists(),
        written=_written(folder / _RECORDS),
        writer=last_writer(folder),
        left_out=(*left_out, *damaged, *unread),
    )


def _refuse_other(folder: Path) -> None:
    expected = "expected a run folder, as run=... or `mixprec compare` make one"
    if not folder.exists():
        raise ValueError(f"{folder} does not exist: {expected}")
    if not folder.is_dir():
        inside = f"did you mean {folder.parent}?" if folder.name == _RECORDS else expected
        raise ValueError(f"{folder} is a file: {inside}")
    if (folder / _RECORDS).exists() or (folder / _DUMPS).is_dir():
        return
    names = sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))
    if not names:
        raise ValueError(f"{folder} is empty: {expected}")
    below = [name for name in names if (folder / name / _RECORDS).exists()]
    if below:
        shown = ", ".join(str(folder / name) for name in below[:3])
        raise ValueError(f"{folder} is no run folder, but holds some: give one of them, e.g. {shown}")
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    raise ValueError(f"{folder} is no run folder: it holds no {_RECORDS} (but {shown}): {expected}")


def _records(file: Path) -> tuple[tuple[Record, ...], list[str]]:
    if not file.exists():
        return (), [f"{file.name} is missing: only the recorder's dumps are left"]
    found = salvage_records(file)
    groups = _alike(found.left_out, file)
    left_out = [_told(group, file) for group in groups[:_NAMED]]
    more = [left for group in groups[_NAMED:] for left in group]
    if more:
        left_out.append(f"{len(more)} more lines of {file} ({_numbers(more)})")
    if found.is_cut_off:
        left_out.append(f"the last line of {file} was cut off while it was written")
    return found.records, left_out


def _alike(left_out: Iterable[LeftOut], file: Path) -> list[list[LeftOut]]:
    """Lines that follow one another and are left out for the same reason."""
    return [list(group) for _, group in groupby(left_out, key=lambda left: _reason(left, file))]


def _told(group: Sequence[LeftOut], file: Path) -> str:
    first = group[0]
    return first.reason if len(group) == 1 else f"{file}, {_numbers(group)}: each {_reason(first, file)}"


def _reason(left: LeftOut, file: Path) -> str:
    return left.reason.removeprefix(f"{file}, line {left.line} ")


def _numbers(lines: Sequence[LeftOut]) -> str:
    first, last = lines[0].line, lines[-1].line
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _dumps(folder: Path) -> tuple[dict[Path, RecorderDump], list[str]]:
    dumps, damaged = dict[Path, RecorderDump](), list[str]()
    for path in find_dumps(folder):
        try:
            dumps[path] = read_dump(path)
        except FileNotFoundError as error:
            damaged.append(f"{error.filename} is missing")
        except ValueError as error:
            damaged.append(str(error))
    return dumps, damaged


def _recipes(folder: Path) -> tuple[dict[str, Recipe], list[str]]:
    recipes, unread = dict[str, Recipe](), list[str]()
    for file in (folder / _RECIPE, *sorted((folder / "recipes").glob("*.toml"))):
        try:
            recipe = Recipe.from_toml(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            unread.append(f"{file} cannot be read: {error}")
            continue
        recipes[recipe.name] = recipe
    return recipes, unread


def _checkpoint(folder: Path) -> int | None:
    root = folder / "checkpoints"
    names = map(_CHECKPOINT.fullmatch, os.listdir(root) if root.is_dir() else [])
    return max((int(name[1]) for name in names if name is not None), default=None)


def _written(file: Path) -> str:
    if not file.exists():
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.stat().st_mtime))


def _versions(folder: Path, header: ComparisonRecord | None, unread: list[str]) -> Mapping[str, Any]:
    if header is not None:
        return {**header.versions, **header.machine}
    file = folder / "versions.json"
    try:
        found: object = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        unread.append(f"{file} cannot be read: {error}")
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _grouped(records: Iterable[Record], dumps: Iterable[RecorderDump]) -> tuple[OneRun, ...]:
    runs: dict[tuple[str, int], OneRun] = {}
    for record in records:
        if not isinstance(record, ComparisonRecord):
            key = record.recipe, record.seed
            runs.setdefault(key, OneRun(recipe=key[0], seed=key[1])).add(record)
    for dump in dumps:
        runs.setdefault((dump.recipe, dump.seed), OneRun(recipe=dump.recipe, seed=dump.seed))
    return tuple(runs.values())
