"""Records as JSON lines: appending them, and reading them back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from ._fields import field_decoders, to_json
from ._types import RECORD_TYPES, SCHEMA_VERSION, Record

_NAMES = {record_type: name for name, record_type in RECORD_TYPES.items()}


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    r"""Append records to a file, made if needed; one line of JSON each.

    The lines go out in one write to the end of the file. A last line that an earlier process left unfinished is cut
    off first.

    Args:
        path: the file; its folder must exist.
        records: what to append.

    Raises:
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
        >>> write_records(file, [RECORD_TYPES["end"](recipe="bf16", seed=0, status="done")])
        >>> file.read_text()
        '{"schema": 5, "type": "end", "recipe": "bf16", "seed": 0, "status": "done", "reason": ""}\n'
        >>> read_records(file)
        [RunEndRecord(recipe='bf16', seed=0, status='done', reason='')]
    """
    data = "".join(map(record_line, records)).encode()
    if not data:
        return
    with open(path, "ab+", buffering=0) as file:
        _mend_end(file.fileno())
        while data:
            data = data[file.write(data) :]


def read_records(path: str | Path) -> list[Record]:
    """Read all records of a file; a last line that was cut off while it was written is left out.

    Raises:
        ValueError: for a line that is no record (with its number), or records of a newer version.
        OSError: if the file cannot be read.
    """
    *lines, last = Path(path).read_bytes().split(b"\n")
    records = [read_line(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    if is_json(last):
        records.append(read_line(last, path, len(lines) + 1))
    return records


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A line of a file of records that could not be read.

    Attributes:
        line: its number, counted from 1.
        reason: one sentence.
    """

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Salvaged:
    """What of a file of records can be read.

    Attributes:
        records: in the order of the file.
        left_out: the lines that are none; in the same order.
        is_cut_off: whether the last line was cut off while it was written.
    """

    records: tuple[Record, ...]
    left_out: tuple[LeftOut, ...] = ()
    is_cut_off: bool = False


def salvage_records(path: str | Path) -> Salvaged:
    r"""Read what can be read of a file that may be damaged: each line for itself.

    Raises:
        OSError: if the file cannot be read.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
        >>> write_records(file, [RECORD_TYPES["end"](recipe="bf16", seed=0, status="done")])
        >>> with open(file, "a") as damaged:
        ...     _ = damaged.write("rubbish\n")
        >>> found = salvage_records(file)
        >>> len(found.records), found.left_out[0].line
        (1, 2)
    """
    records, left_out, is_cut_off = list[Record](), list[LeftOut](), False
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if not line.endswith(b"\n") and not is_json(line):
                is_cut_off = True
                continue
            try:
                records.append(read_line(line.rstrip(b"\n"), path, number))
            except ValueError as error:
                left_out.append(LeftOut(line=number, reason=str(error)))
    return Salvaged(records=tuple(records), left_out=tuple(left_out), is_cut_off=is_cut_off)


def record_line(record: Record) -> str:
    r"""A record as its line of JSON, with the newline.

    Example:
        >>> record_line(RECORD_TYPES["end"](recipe="bf16", seed=0, status="done"))
        '{"schema": 5, "type": "end", "recipe": "bf16", "seed": 0, "status": "done", "reason": ""}\n'
    """
    body = {field.name: to_json(getattr(record, field.name)) for field in fields(record)}
    return json.dumps({"schema": SCHEMA_VERSION, "type": _NAMES[type(record)], **body}, allow_nan=False) + "\n"


def _mend_end(file: int) -> None:
    """Let the file end with a whole line: an object without its newline gets it, half an object goes."""
    size = start = os.fstat(file).st_size
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return
    tail = b""
    while start > 0 and b"\n" not in tail:
        start = max(0, start - 65536)
        tail = os.pread(file, size - start, start)
    fragment = tail.rpartition(b"\n")[2]
    if is_json(fragment):
        os.write(file, b"\n")
    else:
        os.ftruncate(file, size - len(fragment))


def is_json(line: bytes) -> bool:
    """Whether a line is whole."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def read_line(line: bytes, path: str | Path, number: int) -> Record:
    """One line as its record; its file and number are for the error."""
    where = f"{path}, line {number}"
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is no record but {line[:60]!r}: the file is damaged ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no record but {line[:60]!r}: expected a JSON object on each line")
    body = cast(dict[str, Any], value)
    schema, kind = body.pop("schema", None), body.pop("type", None)
    if not isinstance(schema, int):
        raise ValueError(f"{where} tells no schema version: expected records as mixprec writes them")
    if schema > SCHEMA_VERSION:
        raise ValueError(
            f"{where} has schema version {schema}, this mixprec reads up to {SCHEMA_VERSION}: install a newer mixprec"
        )
    if kind not in RECORD_TYPES:
        raise ValueError(f"{where} has type {kind!r}: expected one of {', '.join(RECORD_TYPES)}")
    try:
        return _decode(RECORD_TYPES[kind], body)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} is a damaged {kind} record: {error}") from None


def _decode(record_type: type[Record], body: dict[str, Any]) -> Record:
    decoders = field_decoders(record_type)
    values: dict[str, Any] = {}
    for name, value in body.items():
        if name not in decoders:
            raise ValueError(f"it has an unknown field {name!r}")
        try:
            values[name] = decoders[name](value)
        except ValueError as error:
            raise ValueError(f"its field {name!r}: {error}") from None
    return record_type(**values)
