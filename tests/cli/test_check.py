"""``mixprec check``: what it prints, its JSON, its exit statuses, and what is said of mistakes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from mixprec.cli import main

WORKLOAD = """
import torch
from torch import nn
import torch.nn.functional as F
import mixprec


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        {forward}


def workload(seed, device):
    torch.manual_seed(seed)
    x = torch.linspace(-1, 1, 32).reshape(8, 4)
    return mixprec.Workload(
        model=Model(),
        loss=lambda model, batch: {loss},
        batches=lambda step: x,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=3,
        evaluate=lambda model: {{"loss": 0.0}},
    )
"""
SQUARE = "model(batch).square().mean()"


def write(folder: Path, forward: str, loss: str = SQUARE) -> str:
    (folder / "job.py").write_text(WORKLOAD.format(forward=forward, loss=loss))
    return str(folder / "job.py")


def test_a_healthy_workload_gives_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(tmp_path, "return self.layer(x)"), "--recipe", "fp16"]) == 0
    assert capsys.readouterr().out.startswith("check of recipe fp16: nothing was found in one step of ")


def test_a_fault_is_printed_with_line_evidence_and_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "return self.layer(x).masked_fill(x > -9, float('-inf')).softmax(-1)")
    assert main(["check", file, "--recipe", "bf16"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("check of recipe bf16: 1 fault")
    assert "fault: <model> (softmax): masked row" in shown
    assert "8 of 8 rows are -inf" in shown
    assert "job.py:14" in shown
    assert "remedy: leave one entry unmasked in every row" in shown


def test_json_has_every_field_and_rules_that_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "return (self.layer(x) * 300) * (self.layer(x) * 300)", "(model(batch) * 1e3).mean()")
    assert main(["check", file, "--recipe", "fp16", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["workload"], told["recipe"]) == (file, "fp16")
    (fault,) = [f for f in told["findings"] if f["severity"] == "fault"]
    assert set(fault) == {"severity", "name", "site", "message", "evidence", "threshold", "remedy", "rule"}
    assert (fault["name"], fault["site"]) == ("overflow", "<model> (mul)")
    assert fault["evidence"]["limit"] == 65504
    assert tomllib.loads(fault["rule"]) == {"compute_dtype": "bf16"}


def test_warnings_and_notes_alone_give_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = "F.binary_cross_entropy(torch.sigmoid(model(batch)), torch.zeros(8, 4))"
    assert main(["check", write(tmp_path, "return self.layer(x)", loss), "--recipe", "bf16"]) == 0
    assert "warning: <loss> (binary_cross_entropy): probabilities into a loss" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["gpt", "--recipe", "fp16"], ["resnet"]])
def test_built_in_workloads_are_healthy(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 0
    assert "nothing was found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "unknown workload 'nope'"),
        (["missing.py"], "missing.py: No such file"),
        (["gpt", "--recipe", "nope"], "nope"),
        (["gpt", "--recipe", ""], "--recipe got an empty text"),
        (["resnet", "--data", "x.txt"], "takes no data"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_a_users_error_names_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(tmp_path, "return self.layr(x)"), "--recipe", "fp32"]) == 2
    assert "job.py, line 14: AttributeError" in capsys.readouterr().err
    file = write(tmp_path, "return self.layer(x)", "model(batch)")
    assert main(["check", file, "--recipe", "fp32"]) == 2
    assert "expected one number" in capsys.readouterr().err
