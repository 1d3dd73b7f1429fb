"""``mixprec plan``, ``mixprec explain`` and ``mixprec init --targets``: what they print and write; their statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.planner import Targets
from mixprec.planner.plan import Plan
from mixprec.specs import load_recipe
from tests.cli.small_job import WORKLOAD


def planned(folder: Path, *words: str) -> int:
    (folder / "job.py").write_text(WORKLOAD)
    out = ("--out", str(folder / "small.toml"))
    return main(["plan", str(folder / "job.py"), "--steps", "2", "--batches", "1", *out, *words])


def test_writes_a_recipe_with_evidence_that_explain_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--checks", "1", "--pairs", "2", "--proof-steps", "2")
    words = ("--hardware", "b200", "--candidates", "mxfp8,nvfp4", "--loss-budget", "1", "--keep", "second", "--pareto")
    assert planned(tmp_path, *words, *few, "--objective", "memory") == 0
    shown = capsys.readouterr().out
    assert "what can be had on b200" in shown
    assert "second: keep; the only one that it may have (mxfp8: layer target ('second': keep alone)" in shown
    assert "(not validated)" in shown
    assert "2 pairs" in shown
    assert re.search(r"planning cost \d+\.\d steps of this model \(.* s of tracing and search; proof .* s", shown)
    plan = Plan.load(tmp_path / "small.toml")
    assert load_recipe(tmp_path / "small.toml") == plan.recipe
    assert (plan.recipe.name, plan.recipe.compute_dtype) == ("small", "bf16")
    assert plan.evidence.measured is not None
    assert plan.evidence.spent is not None
    assert plan.evidence.spent.proof_seconds > 0
    assert plan.evidence.batches == 1
    assert plan.evidence.spent.steps > 0
    assert main(["explain", str(tmp_path / "small.toml"), "first"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"first: {plan.evidence.group_of('first').candidate}, ")
    assert "proof: " in told or plan.evidence.group_of("first").candidate == "keep"


def test_the_exit_status_tells_of_targets(tmp_path: Path) -> None:
    (tmp_path / "targets.toml").write_text("[quality]\nloss = 1.0\n[memory]\nbytes = 100_000_000\n")
    words = ("--hardware", "h100", "--candidates", "fp8", "--targets", str(tmp_path / "targets.toml"), "--checks", "0")
    assert planned(tmp_path, *words, "--pairs", "2", "--proof-steps", "2") == 0
    assert planned(tmp_path, *words, "--pairs", "0") == 3  # nothing was run that could resolve them


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--hardware", "h10", "--loss-budget", "1"), "unknown hardware 'h10'"),
        (("--hardware", "h100"), "needs a budget of something else: give --loss-budget"),
        (("--hardware", "h100", "--candidates", "bf16", "--loss-budget", "1"), "gives casts to no layer"),
        (("--hardware", "h100", "--candidates", "fp8,", "--loss-budget", "1"), "has an empty name"),
        (("--hardware", "h100", "--loss-budget", "1", "--keep", "nowhere.*"), "meets no layer of this model"),
        (("--hardware", "h100", "--candidates", "mxfp88", "--loss-budget", "1"), "did you mean 'mxfp8'"),
        (("--hardware", "h100", "--loss-budget", "-1"), "loss budget is -1"),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert planned(tmp_path, *words) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "small.toml").exists()


def test_explain_of_what_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "mxfp8"]) == 0
    (tmp_path / "mine.toml").write_text(capsys.readouterr().out)
    assert main(["explain", str(tmp_path / "mine.toml")]) == 2
    assert "has no table [plan]" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "none.toml")]) == 2


def test_init_writes_targets_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--targets", str(tmp_path / "targets.toml")]) == 0
    assert "--targets" in capsys.readouterr().out
    assert sorted(Targets.load(tmp_path / "targets.toml").quality) == ["loss"]
