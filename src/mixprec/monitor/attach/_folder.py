"""The run folder of a loop that is only watched."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from ...records import RESUMED, EventRecord, Record, RunLock, StepRecord, read_records, write_records

RECORDS, RECIPE, _LOCK = "records.jsonl", "recipe.toml", ".monitor"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class MonitoredFolder:
    """A folder that one monitor appends to; made at once, so that a wrong path fails before training.

    Where a monitor wrote before, the records go on: an event says from which step, and replaces what follows it.

    Args:
        path: the folder; made with its parents.
        recipe: told in every record.
        seed: told in every record.

    Raises:
        ValueError: it is a file; a session's or another recipe's run is in it; its records are damaged; another
            process or another monitor writes it.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, *, recipe: str, seed: int) -> None:
        self.path, self._recipe, self._seed = Path(path), recipe, seed
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"run folder {self.path} is a file: give a folder, which is made if needed")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(self.path)
        self._file = _claim(self.path)
        try:
            self._recorded = self._earlier_steps()
        except ValueError:
            self.release()
            raise

    def write(self, records: Sequence[Record]) -> None:
        """Append records."""
        if records:
            write_records(self.path / RECORDS, records)

    def begin(self, step: int) -> None:
        """The loop is at this step: what was recorded from it on is replaced by what follows."""
        recorded, self._recorded = self._recorded, 0
        if recorded:
            message = f"resumed from step {step} of {recorded} recorded ones"
            event = EventRecord(recipe=self._recipe, seed=self._seed, step=step, name=RESUMED, site="", message=message)
            self.write([event])

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        self._file.close()
        self._lock.release()

    def _earlier_steps(self) -> int:
        """How many steps an earlier monitor recorded here."""
        if (self.path / RECIPE).exists():
            raise ValueError(
                f"run folder {self.path} is a session's, which watches its run itself: give "
                "prepare(..., monitor=Monitoring(...)), or run= another folder"
            )
        records = read_records(self.path / RECORDS) if (self.path / RECORDS).exists() else []
        others = {r.recipe for r in records if isinstance(r, StepRecord)} - {self._recipe}
        if others:
            raise ValueError(
                f"run folder {self.path} holds steps of {', '.join(sorted(others))}, these are of {self._recipe}: give "
                "run= another folder"
            )
        return max((r.step + 1 for r in records if isinstance(r, StepRecord)), default=0)


def _claim(folder: Path) -> TextIOWrapper:
    """A lock that this process cannot take twice either, for as long as the file that is given is open."""
    file = open(folder / _LOCK, "a", encoding="utf-8")  # noqa: SIM115  # held for as long as the monitor lives
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(
            f"run folder {folder} has a monitor already: call remove() on that one, or give run= another folder"
        ) from None
    except OSError as error:  # a file system without locks, of which the process's own lock tells
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return file
