"""``mixprec analyze``: tables, files, and what is said of mistakes."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mixprec.cli import main
from mixprec.records import AnalysisRecord, analysis_csv, analysis_json
from mixprec.tensors import analyze_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    random = torch.Generator().manual_seed(0)
    heavy = torch.randn(16, 64, generator=random) ** 5
    save_file(
        {f"h.{i}.weight": torch.randn(16, 64, generator=random) for i in range(12)}
        | {"h.2.heavy": heavy, "exact": torch.ones(64), "ids": torch.arange(3), "f64": torch.ones(4).double()},
        tmp_path / "model.safetensors",
    )
    return tmp_path / "model.safetensors"


def shows(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["analyze", *map(str, words)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def fails(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["analyze", *map(str, words)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("mixprec: ")
    assert shown.err.count("\n") == 1
    return shown.err


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("│")[1:-1]]


def tables(shown: str) -> list[list[list[str]]]:
    """The bodies of the tables, as lines of cells."""
    found: list[list[list[str]]] = []
    for line in shown.splitlines():
        if line.startswith("┡"):
            found.append([])
        elif line.startswith("│"):
            found[-1].append(cells(line))
    return found


def names(shown: str) -> list[str]:
    """The tensors of the first table: each has a line of its name and one of its shape."""
    (rows, _) = tables(shown)
    lines = [line[0] for line in rows if line[0]]
    assert all(re.fullmatch(r"[0-9x]+ (fp64|fp32)", shape) for shape in lines[1::2])
    return lines[::2]


def test_the_worst_tensors_come_first_and_the_totals_last(capsys: pytest.CaptureFixture[str], model: Path):
    shown = shows(capsys, model, "--casts", "mxfp8,mxfp4,nvfp4")
    assert shown.splitlines()[0].strip() == f"{model}: 10 of 15 tensors, lowest SNR first"
    record = analyze_file(model, ["mxfp8", "mxfp4", "nvfp4"])
    assert names(shown)[0] == "h.2.heavy"
    tensors, totals = tables(shown)
    row = record.rows[[row.tensor for row in record.rows].index("h.2.heavy") + 1]
    assert tensors[1] == [
        "16x64 fp32",
        "mxfp4",
        "4.25",
        f"{row.snr_db:.2f}",
        f"{100 * row.flushed:.2f} %",
        f"{100 * row.saturated:.2f} %",
    ]
    assert [line[0] for line in totals] == ["mxfp8", "mxfp4", "nvfp4"]
    assert totals[0][-2:] == [f"{record.totals[0].lowest_snr_db:.2f}", record.totals[0].lowest_snr_tensor]
    notes = [line for line in shown.splitlines() if line.startswith("- ")]
    assert "last axis, the reduction of a forward product with a weight [N, K]" in notes[0]
    assert notes[1:] == [
        "- fp64, rounded to fp32 first: f64",
        "- skipped 1 tensor (int64, not floating point): ids",
    ]


def test_sorting_and_top(capsys: pytest.CaptureFixture[str], model: Path):
    by_name = shows(capsys, model, "--sort", "name", "--top", "0", "--match", "h.*")
    assert names(by_name) == [
        *("h.0.weight", "h.1.weight", "h.2.heavy", "h.2.weight"),
        *(f"h.{i}.weight" for i in range(3, 12)),
    ]
    assert f"{model}: 13 tensors, by name" in by_name
    record = analyze_file(model, ["mxfp4"])
    for sort, key in (("flushed", "flushed"), ("saturated", "saturated")):
        worst = max(record.rows, key=lambda row: getattr(row, key))
        shown = shows(capsys, model, "--casts", "mxfp4", "--sort", sort, "--top", "1")
        assert names(shown) == [worst.tensor]
        assert f"most {sort} first" in shown
    assert names(shows(capsys, model, "--exclude", "h.*", "--sort", "name")) == ["exact", "f64"]


def test_a_tensor_that_a_cast_leaves_as_it_is(capsys: pytest.CaptureFixture[str], model: Path):
    shown = shows(capsys, model, "--casts", "bf16", "--match", "exact")
    assert tables(shown)[0][0] == ["exact", "bf16", "16", "exact", "0", "0"]


def test_casts_are_split_at_commas_outside_brackets(capsys: pytest.CaptureFixture[str], model: Path):
    shown = shows(capsys, model, "--casts", "mxfp4 sr rht32 , e4m3[row],e2m1[1x16:e4m3*fp32]", "--top", "1")
    assert [line[0] for line in tables(shown)[1]] == ["mxfp4 sr rht32", "e4m3[row]", "nvfp4"]
    from mixprec.cli._analyze import split_casts

    assert split_casts("e4m3[tensor] delayed(16,max), a[b,c](d,e),f") == [
        "e4m3[tensor] delayed(16,max)",
        "a[b,c](d,e)",
        "f",
    ]


def written(record: AnalysisRecord) -> tuple[str, str]:
    return analysis_json(record), analysis_csv(record)


def test_json_and_csv_hold_every_tensor(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path):
    out = (tmp_path / "a.json", tmp_path / "a.csv")
    shown = shows(capsys, model, "--casts", "mxfp8,mxfp4", "--top", "1", "--json", out[0], "--csv", out[1])
    assert shown.splitlines()[-2:] == [f"wrote {out[0]}", f"wrote {out[1]}"]
    assert tuple(path.read_text() for path in out) == written(analyze_file(str(model), ["mxfp8", "mxfp4"]))
    read = json.loads(out[0].read_text())
    assert (read["schema"], len(read["rows"]), len(read["totals"]), read["skipped"][0]["tensor"]) == (1, 30, 2, "ids")
    assert len(list(csv.DictReader(io.StringIO(out[1].read_text())))) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.json", "model.safetensors"]


def test_a_dash_prints_the_file_alone(capsys: pytest.CaptureFixture[str], model: Path):
    expected = written(analyze_file(str(model), ["mxfp8"]))
    assert shows(capsys, model, "--casts", "mxfp8", "--json", "-") == expected[0]
    shown = shows(capsys, model, "--casts", "mxfp8", "--csv", "-")
    assert shown == expected[1]
    assert float(next(csv.DictReader(io.StringIO(shown)))["snr_db"]) == math.inf


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--casts", "mxpf4"), "unknown format 'mxpf4': expected one of .*did you mean 'mxfp4'"),
        (("--casts", "mxfp4 rcei"), "word in cast 'mxfp4 rcei'.*did you mean 'rceil'"),
        (("--casts", ","), "--casts ',' has an empty cast"),
        (("--casts", ""), "--casts names no cast: expected some, comma-separated"),
        (("--casts", "mxfp8,,nvfp4"), "--casts 'mxfp8,,nvfp4' has an empty cast: expected casts with a comma between"),
        (("--sort", "flush"), 'Invalid value "flush" for --sort. .*Did you mean "flushed"'),
        (("--top", "-1"), "--top must be at least 0, got -1"),
        (("--match", "h.0.wieght"), "matches 'h.0.wieght': did you mean h.0.weight"),
        (("--exclude", "*"), r"'\*' leaves out every tensor"),
        (("--json", "none/a.json"), "none/a.json: No such file or directory"),
        (("--csv", "."), ".: Is a directory"),
        (("--json", "a", "--csv", "a"), "--json and --csv both name a: give each its own file"),
        (("--jso", "a"), "Unknown option: --jso. Did you mean --json"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    capsys: pytest.CaptureFixture[str],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
):
    monkeypatch.chdir(tmp_path)
    assert re.search(message, fails(capsys, model, *words))
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_bad_file_leaves_the_files_of_before(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "a.json").write_text("before")
    bad = {"text": "neither a safetensors file", "nan.pt": r"1 NaN and 0 infinite.*--exclude 'w'", "none.pt": "No such"}
    (tmp_path / "text").write_text("some text")
    torch.save({"w": torch.tensor([math.nan, 1.0])}, tmp_path / "nan.pt")
    for name, message in bad.items():
        told = fails(capsys, tmp_path / name, "--json", tmp_path / "a.json", "--csv", tmp_path / "a.csv")
        assert re.search(message, told)
    assert (tmp_path / "a.json").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "nan.pt", "text"]


def test_a_wrong_cast_is_told_without_loading_torch(tmp_path: Path):
    code = "import sys; from mixprec.cli import main; sys.exit(10 * ('torch' in sys.modules) + main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "analyze", "none.pt", "--casts", "mxpf4"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:23]) == (2, "mixprec: unknown format")
