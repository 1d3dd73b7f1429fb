from __future__ import annotations

from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.records import EvaluationRecord, RunEndRecord, write_records


def run(folder: Path) -> str:
    write_records(
        folder / "records.jsonl",
        [
            record
            for name, loss in (("fp32", 2.0), ("b & c", 2.5))
            for record in (
                EvaluationRecord(recipe=name, seed=0, step=1, forward="recipe", metrics={"loss": loss}),
                RunEndRecord(recipe=name, seed=0, status="done"),
            )
        ],
    )
    return str(folder)


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("markdown", "| b &amp; c | 2.5000 | +0.5000 |"),
        ("csv", "b & c,loss,recipe,1,2.5,0.5,,,"),
        ("latex", r"b \& c & 2.5000 & +0.5000 \\"),
    ],
)
def test_each_format_is_printed(tmp_path: Path, format: str, line: str, capsys: pytest.CaptureFixture[str]):
    assert main(["table", run(tmp_path), "--format", format]) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_a_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", run(tmp_path), "--out", str(tmp_path / "t.md")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "t.md").read_text(encoding="utf-8").startswith("| recipe | loss | gap in loss |")


def test_a_damaged_line_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = run(tmp_path)
    good = (tmp_path / "records.jsonl").read_bytes()
    (tmp_path / "records.jsonl").write_bytes(b"rubbish\n" + good)
    assert main(["table", folder, "--format", "csv"]) == 0
    told = capsys.readouterr()
    assert "b & c,loss,recipe,1,2.5,0.5,,," in told.out.splitlines()
    assert "left out: " in told.err
    assert "line 1" in told.err


@pytest.mark.parametrize(
    ("text", "says"), [("", "holds no complete record"), ("rubbish\n", "no line of it can be read")]
)
def test_records_without_any_are_refused(tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "records.jsonl").write_text(text)
    assert main(["table", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err


def test_another_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", str(tmp_path)]) == 2
    assert "holds no records.jsonl" in capsys.readouterr().err
