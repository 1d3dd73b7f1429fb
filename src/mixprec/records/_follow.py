"""A file of records, followed while another process appends to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ._lines import LeftOut, is_json, read_line
from ._types import Record


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What came since the last look.

    Attributes:
        records: in the order of the file.
        left_out: lines that are no records.
        is_anew: whether the file was replaced or shortened: ``records`` are all of it then, and what was read before
            is void.
    """

    records: tuple[Record, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    is_anew: bool = False


class RecordFollower:
    r"""Reads what is appended to a file of records, each record once.

    A last line that is still being written is left for the next look. The file need not be there yet.

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> from mixprec.records import RunEndRecord, write_records
        >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
        >>> follower = RecordFollower(file)
        >>> follower.read().records
        ()
        >>> write_records(file, [RunEndRecord(recipe="bf16", seed=0, status="done")])
        >>> len(follower.read().records), len(follower.read().records)
        (1, 0)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: tuple[int, int] | None = None
        self._offset, self._lines, self._is_open = 0, 0, False

    def read(self) -> Followed:
        """What is new.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                facts = os.fstat(file.fileno())
                identity = (facts.st_dev, facts.st_ino)
                is_anew = self._file is not None and (identity != self._file or facts.st_size < self._offset)
                if is_anew:
                    self._offset, self._lines, self._is_open = 0, 0, False
                self._file = identity
                file.seek(self._offset)
                records, left_out = list[Record](), list[LeftOut]()
                for line in iter(file.readline, b""):
                    if not line.endswith(b"\n") and not is_json(line):
                        break
                    self._offset += len(line)
                    self._take(line, records, left_out)
        except FileNotFoundError:
            return Followed()
        return Followed(records=tuple(records), left_out=tuple(left_out), is_anew=is_anew)

    def _take(self, line: bytes, records: list[Record], left_out: list[LeftOut]) -> None:
        # The newline of an object that was read before it had one is no line of its own.
        self._lines += not (self._is_open and line == b"\n")
        self._is_open = not line.endswith(b"\n")
        if not line.strip():
            return
        try:
            records.append(read_line(line.rstrip(b"\n"), self.path, self._lines))
        except ValueError as error:
            left_out.append(LeftOut(line=self._lines, reason=str(error)))
