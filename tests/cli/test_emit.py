"""``mixprec emit``: what it writes, what it refuses, and its statuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mixprec.cli import main
from mixprec.planner.plan import Plan
from tests.cli.small_job import WORKLOAD


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(WORKLOAD)
    return str(path)


class Model(nn.Module):
    """The workload's, as a file that was written for it would find it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1024, 2048), nn.Linear(2048, 64)


def test_a_plans_file_converts_its_layers_and_tells_its_reasons(tmp_path: Path, job: str) -> None:
    pytest.importorskip("torchao")
    plan, out = tmp_path / "plan.toml", tmp_path / "precision.py"
    words = (
        "--hardware",
        "h100",
        "--candidates",
        "fp8",
        "--loss-budget",
        "1",
        "--keep",
        "second",
        "--objective",
        "memory",
    )
    quick = ("--steps", "1", "--batches", "1", "--checks", "0", "--pairs", "0")
    assert main(["plan", job, *words, *quick, "--out", str(plan)]) == 0
    assert main(["emit", str(plan), job, "--to", "torchao", "--out", str(out)]) == 0
    text = out.read_text()
    group = Plan.load(plan).evidence.group_of("first")
    assert group.candidate == "fp8"
    assert f"# fp8: {group.reason}"[:60] in text
    assert "# - second: keep" in text
    namespace: dict[str, Any] = {}
    exec(compile(text, str(out), "exec"), namespace)
    model = namespace["apply"](Model().to(torch.bfloat16))
    assert [type(layer).__name__ for layer in (model.first, model.second)] == ["Float8Linear", "Linear"]


def test_the_same_words_give_the_same_text(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for seed in ("0", "1"):
        words = ["mxfp8", job, "--to", "transformer-engine", "--seed", seed, "--keep", "second"]
        assert main(["emit", *words]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert '        "first",\n' in texts[0]
    assert "return MXFP8BlockScaling()" in texts[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mxfp8", "--to", "torchao"), "first, second: it has a bias, which torchao's MXFP8 layers leave out"),
        (("mxfp4", "--to", "transformer-engine"), "first, second: its fprop_input is 'mxfp4'"),
        (("fp8", "--to", "torchao", "--keep", "third"), "unknown site with casts to keep wide: 'third'"),
        (("fp8", "--to", "transformer-engine", "--emulate"), "--emulate is for torchao"),
        (("bf16", "--to", "torchao"), "recipe 'bf16' gives casts to no layer"),
        (("fp88", "--to", "torchao"), "did you mean 'fp8'"),
        (("fp8", "--to", "torch-ao"), "torch-ao"),
    ],
)
def test_mistakes_are_one_line_and_status_2_and_write_nothing(
    tmp_path: Path, job: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    out = tmp_path / "precision.py"
    assert main(["emit", words[0], job, *words[1:], "--out", str(out)]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert len(shown.splitlines()) == 1
    assert not out.exists()


def test_convolutions_are_told_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", "fp8", "resnet", "--to", "torchao"]) == 2
    assert "stem, blocks.0.conv1, blocks.0.conv2" in capsys.readouterr().err


def test_a_recipe_file_without_a_plan_serves(tmp_path: Path, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "fp8"]) == 0
    (tmp_path / "mine.toml").write_text(capsys.readouterr().out)
    assert main(["emit", str(tmp_path / "mine.toml"), job, "--to", "torchao"]) == 0
    assert "Float8LinearConfig" in capsys.readouterr().out
