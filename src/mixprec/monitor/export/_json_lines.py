"""Records as JSON lines, to any file or stream."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from ...records import Record, record_line, write_records


class JsonLinesExporter:
    r"""Appends each record as one line of JSON, in the form of a run folder's ``records.jsonl``.

    Args:
        target: a file, made if needed and appended to (its folder must exist), or a stream of text, which stays open:
            it is flushed after each line, and closed by whoever opened it.

    Raises:
        OSError: the file cannot be written; told at once, before training.

    Example:
        >>> import io
        >>> from mixprec.records import RunEndRecord
        >>> out = io.StringIO()
        >>> JsonLinesExporter(out).take(RunEndRecord(recipe="bf16", seed=0, status="done"))
        >>> out.getvalue()
        '{"schema": 5, "type": "end", "recipe": "bf16", "seed": 0, "status": "done", "reason": ""}\n'
    """

    def __init__(self, target: str | Path | TextIO) -> None:
        self._target = Path(target) if isinstance(target, str | Path) else target
        if isinstance(self._target, Path):
            self._target.open("ab").close()

    def take(self, record: Record) -> None:
        """Write one line."""
        if isinstance(self._target, Path):
            write_records(self._target, [record])
        else:
            self._target.write(record_line(record))
            self._target.flush()

    def close(self) -> None:
        """Nothing is held back."""
