"""Folders that are damaged, of another version or no run, before every command that reads one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mixprec
from mixprec.cli import main
from mixprec.records import write_records
from tests.monitor.doctor.records import calm, coverage, folder, statistics

COMMANDS = {
    "doctor": ("doctor",),
    "doctor --json": ("doctor", "--json"),
    "watch": ("watch", "--once"),
    "report": ("report",),
}
READ, REFUSED = 0, 2


def run(path: Path) -> Path:
    return folder(path, [*calm(12), statistics(0), coverage()])


def lines(path: Path) -> list[bytes]:
    return (run(path) / "records.jsonl").read_bytes().splitlines(keepends=True)


def written(path: Path, data: bytes) -> Path:
    path.mkdir(exist_ok=True)
    (path / "records.jsonl").write_bytes(data)
    return path


def with_newer(path: Path, *, first: bool) -> Path:
    good = lines(path)
    return written(path, b"".join([newer(good[0]), *good] if first else [*good, *map(newer, good[:9])]))


def newer(line: bytes) -> bytes:
    return json.dumps({**json.loads(line), "schema": 99, "unheard of": 1}).encode() + b"\n"


def amid(path: Path, *bad: bytes) -> Path:
    """A run with these lines in its middle."""
    good = lines(path)
    return written(path, b"".join([*good[:5], *bad, *good[5:]]))


def torn(path: Path) -> Path:
    """Two processes without locks: one's line in the middle of the other's."""
    good = lines(path)
    return written(path, b"".join([*good[:5], good[5][:40], good[6], good[5][40:], *good[7:]]))


def other(path: Path) -> Path:
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    return path


def parent(path: Path) -> Path:
    run(path / "a")
    return path


def empty(path: Path) -> Path:
    path.mkdir()
    return path


# What a folder is: how the doctor and watch take it, how the report does, and what each of them says of it.
TROUBLE: dict[str, tuple[Callable[[Path], Path], int, int, str]] = {
    "cut mid-line": (lambda p: written(p, b"".join(lines(p))[:-30]), READ, READ, ""),
    "cut mid-letter": (lambda p: written(p, b"".join(lines(p)) + '{"name": "é'.encode()[:-1]), READ, READ, ""),
    "zeros after a crash": (lambda p: written(p, b"".join(lines(p)) + bytes(4096)), READ, READ, ""),
    "cut in its first line": (lambda p: written(p, lines(p)[0][:30]), REFUSED, REFUSED, "cut off|no complete record"),
    "newer": (lambda p: written(p, b"".join(map(newer, lines(p)))), REFUSED, REFUSED, "99.*install a newer mixprec"),
    "newer at its end": (lambda p: with_newer(p, first=False), READ, READ, "schema version 99"),
    "newer at its start": (lambda p: with_newer(p, first=True), READ, READ, "line 1 "),
    "rubbish amid": (lambda p: amid(p, b"\xff\xfe rubbish\n"), READ, READ, "line 6 "),
    "zeros amid": (lambda p: amid(p, bytes(50) + b"\n"), READ, READ, "line 6 "),
    "nested without end": (lambda p: amid(p, b'{"a":' * 20_000 + b"\n"), READ, READ, "line 6 "),
    "no object": (lambda p: amid(p, b"[1, 2]\n"), READ, READ, "expected a JSON object"),
    "torn by two writers": (torn, READ, READ, "line 6 "),
    "rubbish alone": (lambda p: written(p, b"hello\n"), REFUSED, REFUSED, "the file is damaged"),
    "an empty file": (lambda p: written(p, b""), REFUSED, REFUSED, "records.jsonl (is empty|holds no complete)"),
    "an empty folder": (empty, REFUSED, REFUSED, "expected (a|the) run folder"),
    "no run": (other, REFUSED, REFUSED, "holds no records.jsonl.*expected (a|the) run folder"),
    "a file": (lambda p: other(p) / "notes.txt", REFUSED, REFUSED, "is a file: expected (a|the) run folder"),
    "its records": (lambda p: run(p) / "records.jsonl", REFUSED, REFUSED, "is a file: did you mean .*run?"),
    "a folder of runs": (parent, REFUSED, REFUSED, "(did you mean|e.g.) .*/a"),
    "missing": (lambda p: p, REFUSED, REFUSED, "does not exist"),
    "a lock that is none": (lambda p: (run(p), (p / ".lock").mkdir())[0], READ, READ, ""),
    "a lock of rubbish": (lambda p: (run(p), (p / ".lock").write_bytes(b"\xff{"))[0], READ, READ, ""),
}  # fmt: skip


def bytes_of(path: Path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file() and file.name != "report.html"]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", TROUBLE)
def test_every_reader_says_what_is_wrong_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    make, read, reported, says = TROUBLE[name]
    path = make(tmp_path / "run")
    before = bytes_of(tmp_path)
    status = main([COMMANDS[command][0], str(path), *COMMANDS[command][1:]])
    told = capsys.readouterr()
    assert status == (reported if command == "report" else read), told
    assert bytes_of(tmp_path) == before
    if status == REFUSED:
        assert told.out == ""
        assert told.err.count("\n") == 1, "one line"
        assert re.search(says, told.err), told.err
        assert not (tmp_path / "run" / "report.html").exists()
    else:
        assert told.err == ""
        assert re.search(says, told.out), told.out
        if command == "doctor --json":
            assert json.loads(told.out)["about"][0].startswith("recipe mine, seed 0: 1")


def test_lines_that_are_left_out_for_one_reason_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_newer(tmp_path / "run", first=False)
    assert main(["doctor", str(path)]) == 0
    (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left out")]
    assert "lines 15 to 23: each has schema version 99" in told


WRITER = """
import sys
import torch
import mixprec

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for write in (lambda: mixprec.prepare(model, optimizer, "bf16", run=sys.argv[1]),
              lambda: mixprec.monitor(model, optimizer, run=sys.argv[1])):
    try:
        write()
    except ValueError as error:
        print(error)
"""


def test_a_second_writer_is_refused_while_readers_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Linear(2, 1)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16", run=tmp_path / "run")
    for n in range(3):
        session.step(model(torch.ones(1, 2)).sum() * (n + 1))
    before = bytes_of(tmp_path)
    words = [sys.executable, "-c", WRITER, str(tmp_path / "run")]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == 2, "a session and a monitor"
    assert all("is being written by process" in one and "give run= another folder" in one for one in told)
    for command in COMMANDS.values():
        assert main([command[0], str(tmp_path / "run"), *command[1:]]) == 0
        assert capsys.readouterr().err == ""
    assert bytes_of(tmp_path) == before
    session.step(model(torch.ones(1, 2)).sum())  # and the first goes on
    assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "step 4" in shown
    assert "nobody writes it now" not in shown
    session.restore()
    assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    assert "has closed the run: nobody writes it now" in capsys.readouterr().out


def test_a_reader_while_a_line_is_being_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path / "run")
    with open(path / "records.jsonl", "ab") as file:
        file.write(b'{"schema": 3, "type": "st')
    assert main(["doctor", str(path)]) == 0
    assert "cut off while it was written" in capsys.readouterr().out
    write_records(path / "records.jsonl", calm(2, first=12))
    assert main(["doctor", str(path)]) == 0
    told = capsys.readouterr().out
    assert "14 applied steps" in told
    assert "left out" not in told
