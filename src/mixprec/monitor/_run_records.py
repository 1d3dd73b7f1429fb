"""A run folder's records: one writer, appending to what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..records import RESUMED, EventRecord, Record, RunLock, StepRecord, read_records, write_records

RECORDS, RECIPE = "records.jsonl", "recipe.toml"


class RunRecords:
    """The records of a folder that this process alone writes; the folder is made with its parents.

    Args:
        path: the folder.
        check: is given the records that are there; what it raises is raised.

    Attributes:
        path: the folder.
        recorded: steps that the records hold, as far as they were not replaced.
        reached: the most steps that they ever held.
        note: why the folder could not be locked; empty where it is.

    Raises:
        ValueError: it is a file; its records are damaged; another process writes it; ``check`` refuses them.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, check: Callable[[Sequence[Record]], None]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"run folder {self.path} is a file: give a folder, which is made if needed")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(self.path)
        self.note = self._lock.note
        try:
            earlier = read_records(self._file) if self._file.exists() else []
            check(earlier)
        except (OSError, ValueError):
            self.release()
            raise
        self.recorded = recorded_steps(earlier)
        self.reached = max((record.step + 1 for record in earlier if isinstance(record, StepRecord)), default=0)

    def write(self, records: Sequence[Record]) -> None:
        """Append records."""
        if records:
            write_records(self._file, records)
            self.recorded = recorded_steps(records, self.recorded)
            self.reached = max(self.reached, self.recorded)

    def sync(self) -> None:
        """Wait until the disk has the records."""
        if self._file.exists():
            with open(self._file, "rb") as file:
                os.fsync(file.fileno())

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        self._lock.release()

    @property
    def _file(self) -> Path:
        return self.path / RECORDS


def recorded_steps(records: Iterable[Record], before: int = 0) -> int:
    """How many steps a run's records hold, as far as they were not replaced: one more than the last one's number.

    Args:
        records: in their order.
        before: how many those before them hold.

    Example:
        >>> recorded_steps([EventRecord(recipe="a", seed=0, step=3, name="resumed", site="", message="")])
        3
    """
    steps = before
    for record in records:
        if isinstance(record, StepRecord):
            steps = record.step + 1
        elif isinstance(record, EventRecord) and record.name == RESUMED:
            steps = record.step
    return steps


def resumed_text(step: int, recorded: int) -> str:
    """Where a run goes on, in words.

    Args:
        step: applied steps of the state that it goes on from.
        recorded: steps that the records hold.

    Example:
        >>> resumed_text(2, 3)
        'resumed from step 2 of 3 recorded ones'
        >>> resumed_text(14, 13)
        'resumed from step 14; the records end after 13 steps, and what came between is not in them'
    """
    if step <= recorded:
        return f"resumed from step {step} of {recorded} recorded ones"
    steps = "1 step" if recorded == 1 else f"{recorded} steps"
    return f"resumed from step {step}; the records end after {steps}, and what came between is not in them"
