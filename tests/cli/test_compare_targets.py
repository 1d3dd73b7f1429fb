"""``mixprec compare`` with a plan of pairs and targets: what it prints, and its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.records import ComparisonRecord, read_records

WORKLOAD = """
from tests.compare.fits import fit

def workload(seed, device, steps=6):
    return fit(seed, device, steps=steps)
"""


@pytest.fixture
def line(tmp_path: Path) -> str:
    file = tmp_path / "line.py"
    file.write_text(WORKLOAD, encoding="utf-8")
    return str(file)


def targets(tmp_path: Path, text: str) -> str:
    file = tmp_path / "targets.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("[quality]\nloss = 10.0\n", 0),
        ("[quality]\nloss = 10.0\n[memory]\nbytes = 1\n", 1),
        ("[quality]\nloss = 10.0\n[cost]\nlargest = 3.0\n", 3),
    ],
)
def test_the_exit_status_is_that_of_the_verdicts(
    line: str, tmp_path: Path, text: str, status: int, capsys: pytest.CaptureFixture[str]
):
    out = ["--out", str(tmp_path / "run"), "--seeds", "2"]
    assert main(["compare", line, "--recipes", "fp32,mxfp8", "--targets", targets(tmp_path, text), *out]) == status
    assert "quality.loss" in capsys.readouterr().out


def test_pairs_are_added_up_to_the_budget_and_the_plan_is_kept(line: str, tmp_path: Path):
    run = tmp_path / "run"
    asked = ["--recipes", "fp32,mxfp8", "--tolerance", "1e-9", "--max-pairs", "4"]
    assert main(["compare", line, *asked, "--out", str(run)]) in (1, 3)
    headers = [record for record in read_records(run / "records.jsonl") if isinstance(record, ComparisonRecord)]
    assert headers[-1].seeds == (0, 1, 2, 3)
    assert (headers[0].max_pairs, len(headers[0].critical)) == (4, 2)
    assert main(["compare", line, "--resume", str(run)]) in (1, 3), "as it was"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--max-pairs", "4", "--seeds", "3"], "--seeds 3 fixes how many pairs there are"),
        (["--max-pairs", "2"], "max_pairs is 2, expected 3 to 100"),
        (["--tolerance", "-1"], "absolute is -1.0, expected a finite number, 0 or more"),
    ],
)
def test_what_does_not_go_together_is_refused(
    line: str, tmp_path: Path, asked: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", line, "--recipes", "fp32,mxfp8", "--out", str(tmp_path / "run"), *asked]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_budget_is_not_raised_after_the_gap_was_seen(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(tmp_path / "run")
    assert main(["compare", line, "--recipes", "fp32,mxfp8", "--seeds", "1", "--out", run]) == 0
    capsys.readouterr()
    assert main(["compare", line, "--max-pairs", "5", "--resume", run]) == 2
    assert "was begun with no plan" in " ".join(capsys.readouterr().err.split())


def test_a_tolerance_and_its_target_are_one(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    asked = ["--tolerance", "0.1", "--targets", targets(tmp_path, "[quality]\nloss = 0.2\n")]
    assert main(["compare", line, "--recipes", "fp32,mxfp8", "--out", str(tmp_path / "run"), *asked]) == 2
    assert "are the same target" in " ".join(capsys.readouterr().err.split())


def test_commands_are_judged_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "train.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "seed, name, run = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])\n"
        "loss = 2 + seed + (0.5 + 0.001 * seed if name == 'low' else 0)\n"
        "(run / 'log.jsonl').write_text(json.dumps({'step': 9, 'loss': loss}) + '\\n')\n",
        encoding="utf-8",
    )
    asked = ["--command", f"python {script} {{seed}} {{recipe}} {{run}}", "--metric", "{run}/log.jsonl:loss"]
    plan = ["--recipes", "full,low", "--tolerance", "0.1", "--max-pairs", "5", "--out", str(tmp_path / "run")]
    assert main(["compare", *asked, *plan]) == 1
    headers = [r for r in read_records(tmp_path / "run" / "records.jsonl") if isinstance(r, ComparisonRecord)]
    assert headers[-1].seeds == (0, 1, 2), "resolved at the first look"
    assert "quality.loss │ missed" in " ".join(capsys.readouterr().out.split())
