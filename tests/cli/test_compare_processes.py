from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.records import ComparisonRecord, EvaluationRecord, RunEndRecord, read_records
from tests.compare.processes.scripts import script_box


def words(tmp_path: Path, *more: str) -> list[str]:
    box = script_box(tmp_path, "base")
    metrics = [word for metric in box.metrics for word in ("--metric", metric)]
    return ["compare", "--command", box.command, *metrics, *more]


def test_a_command_is_compared_shown_and_resumed_by_its_folder_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "run x"
    assert main(words(tmp_path, "--recipes", "base,größer", "--seeds", "2", "--jobs", "2", "--out", str(out))) == 0
    shown = capsys.readouterr()
    assert "train.py: 10 steps, 2 seeds" in shown.out
    assert "accuracy" in shown.out
    assert "+0.0020" in shown.out
    assert f"report: {out / 'report.html'}" in shown.out
    assert shown.err.count(" done") == 4
    assert "nan" not in shown.err
    assert main(["compare", "--resume", str(out), "--seeds", "3", "--recipes", "base,crash"]) == 1
    assert "crash, seed 0: failed, it ended with exit status 1" in capsys.readouterr().out
    records = read_records(out / "records.jsonl")
    assert [r.recipes for r in records if isinstance(r, ComparisonRecord)][-1] == ("base", "größer", "crash")
    assert len([r for r in records if isinstance(r, RunEndRecord)]) == 9


def test_the_printed_command_repeats_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    targets, first, again = tmp_path / "t.toml", tmp_path / "a b", tmp_path / "again"
    targets.write_text('[quality]\nloss = 0.05\naccuracy = { absolute = 0.9, better = "higher" }\n')
    asked = words(tmp_path, "--recipes", "base,größer", "--max-pairs", "3", "--jobs", "2", "--targets", str(targets))
    assert main([*asked, "--out", str(first)]) == 2, "a loss by its place alone is not judged"
    assert "write val=loss if lower values are better" in capsys.readouterr().err
    asked = [word + "=loss" if word.endswith(":val") else word for word in asked]
    status = main([*asked, "--out", str(first)])
    page = (first / "report.html").read_text(encoding="utf-8")
    found = re.search(r'id="repeat">([^<]*)</pre>', page)
    assert found
    command = shlex.split(html.unescape(found[1]))
    assert command[:2] == ["mixprec", "compare"]
    assert main([*command[1:], "--out", str(again)]) == status
    assert_same(first, again)


def assert_same(first: Path, again: Path) -> None:
    """What was compared, and what came out."""
    told = [list(read_records(folder / "records.jsonl")) for folder in (first, again)]
    headers = [[r for r in records if isinstance(r, ComparisonRecord)][-1] for records in told]
    assert headers[0] == headers[1]
    assert len(headers[0].targets) == 2
    evaluated = [
        {(r.recipe, r.seed, r.step): r.metrics for r in records if isinstance(r, EvaluationRecord)} for records in told
    ]
    assert evaluated[0] == evaluated[1] != {}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gpt", "--recipes", "a,b"], "a workload ('gpt') and a --command were given"),
        ([], "--command needs --recipes"),
        (["--recipes", "a,b", "--sweep", "weights=split"], "--sweep expands mixprec's recipes"),
        (["--recipes", "a,b", "--one-by-one"], "--one-by-one is for workloads"),
        (["--recipes", "a,b", "--device", "cuda:0"], "--device is for workloads"),
        (["--recipes", "a,b", "--seeds", "0"], "--seeds must be at least 1"),
        (["--recipes", "a,b", "--jobs", "0"], "--jobs is '0', expected a number of runs at once"),
        (["--recipes", "a,,b"], "empty name"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert main(words(tmp_path, *arguments)) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected a workload (`gpt`, `resnet` or a Python file), or --command and --metric"),
        (["--metric", "a:b"], "--metric is for --command"),
        (["--command", "python {seed} {recipe}", "--recipes", "a"], "a command needs a metric to compare"),
    ],
)
def test_what_is_missing_is_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_steps_that_were_asked_for_are_kept_by_resuming(tmp_path: Path):
    asked, out = words(tmp_path, "--recipes", "base", "--seeds", "1", "--steps", "7"), tmp_path / "run"
    asked[2] += " --steps {steps}"
    assert main([*asked, "--out", str(out)]) == 0
    assert main(["compare", "--resume", str(out), "--seeds", "2"]) == 0
    headers = [r for r in read_records(out / "records.jsonl") if isinstance(r, ComparisonRecord)]
    assert {(header.steps, header.data["steps"]) for header in headers} == {(7, "7")}
    assert headers[-1].seeds == (0, 1)


def test_a_sweep_is_trained_and_its_recipes_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    sweep = ["--sweep", "wgrad.grad_output.rounding=nearest,stochastic"]
    small = ["--steps", "1", "--seeds", "1", "--out", str(out)]
    assert main(["compare", "resnet", "--recipes", "fp32,mxfp4", *sweep, *small]) == 0
    assert "mxfp4[wgrad.grad_output.rounding=nearest]" in capsys.readouterr().out
    assert sorted(file.name for file in (out / "recipes").iterdir()) == [
        "fp32.toml",
        "mxfp4-wgrad.grad_output.rounding-nearest-.toml",
        "mxfp4-wgrad.grad_output.rounding-stochastic-.toml",
    ]
