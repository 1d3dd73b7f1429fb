"""The run folder of a loop that is only watched."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from ...records import RESUMED, EventRecord, Record, StepRecord
from .._run_records import RECIPE, RunRecords, resumed_text

_LOCK = ".monitor"
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
        self._records = RunRecords(path, self._check)
        try:
            self._file = _claim(self.path)
        except (OSError, ValueError):
            self._records.release()
            raise
        self._earlier = self._records.recorded

    def write(self, records: Sequence[Record]) -> None:
        """Append records."""
        self._records.write(records)

    def begin(self, step: int) -> None:
        """The loop is at this step: what was recorded from it on is replaced by what follows."""
        recorded, self._earlier = self._earlier, 0
        if recorded:
            message = resumed_text(step, recorded)
            event = EventRecord(recipe=self._recipe, seed=self._seed, step=step, name=RESUMED, site="", message=message)
            self.write([event])

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        self._file.close()
        self._records.release()

    def _check(self, earlier: Sequence[Record]) -> None:
        """Refuse a folder of something else."""
        if (self.path / RECIPE).exists():
            raise ValueError(
                f"run folder {self.path} is a session's, which watches its run itself: give "
                "prepare(..., monitor=Monitoring(...)), or run= another folder"
            )
        others = {r.recipe for r in earlier if isinstance(r, StepRecord)} - {self._recipe}
        if others:
            raise ValueError(
                f"run folder {self.path} holds steps of {', '.join(sorted(others))}, these are of {self._recipe}: give "
                "run= another folder"
            )


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
