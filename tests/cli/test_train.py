from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mixprec.cli._main import main
from mixprec.cli._train import _status
from mixprec.compare import Trained
from mixprec.records import Verdict

WORKLOAD = """
import os, signal
import torch
from torch import nn
import mixprec


def loss(model, batch):
    return (model(batch).float() - batch.sum(1, keepdim=True)).square().mean()


def workload(seed, device):
    def batches(index):
        if index == 3 and os.environ.get("STOP_BY"):
            os.kill(os.getpid(), int(os.environ["STOP_BY"]))
        return torch.randn(16, 8, generator=torch.Generator().manual_seed(index))

    torch.manual_seed(seed)
    return mixprec.Workload(
        model=nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)),
        loss=loss,
        batches=batches,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        steps=6,
        evaluate=lambda model: {"loss": loss(model, batches(99)).item()},
    )
"""


@pytest.fixture
def workload(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(WORKLOAD)
    return str(file)


def test_a_stopped_run_goes_on_by_the_same_line(
    workload: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    line = ["train", workload, "--recipe", "mxfp8", "--out", str(tmp_path / "run"), "--evaluate-every", "2"]
    monkeypatch.setenv("STOP_BY", str(int(signal.SIGTERM)))
    assert main(line) == 143
    told = capfd.readouterr()
    assert told.out.startswith("interrupted: 4 of 6 steps\n")
    assert "SIGTERM: the step is finished and saved; once more ends the run at once" in told.err
    assert "the same command goes on" in told.err
    monkeypatch.delenv("STOP_BY")
    assert main(line) == 0
    told = capfd.readouterr()
    assert told.out.startswith("done: 6 of 6 steps\nevaluation, recipe's forward: loss ")
    assert "resumed from step 4" in told.err
    assert "step 4: evaluation's loss" in told.err
    assert main(line) == 0
    assert capfd.readouterr().out.startswith("was done before: 6 of 6 steps\n")
    assert main([*line, "--seed", "1"]) == 2
    assert "--seed 0, now it is 1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--checkpoint-every", "0"], "--checkpoint-every must be at least 1"),
        (["--checkpoint-minutes", "-1"], "--checkpoint-minutes must be 0 or more"),
        (["--recipe", "mxfp9"], "mxfp9"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(
    workload: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], what: str
):
    assert main(["train", workload, "--out", str(tmp_path / "run"), *words]) == 2
    told = capfd.readouterr().err
    assert what in told
    assert told.count("\n") == 1
    assert not os.path.exists(tmp_path / "run")


def test_exit_statuses():
    missed = Verdict(
        recipe="",
        target="quality.loss",
        outcome="missed",
        limit=0.1,
        unit="absolute",
        measured=0.2,
        interval=None,
        pairs=1,
    )
    ended = {
        0: Trained(outcome="done", applied=6, skipped=0, steps=6),
        1: Trained(outcome="failed", applied=2, skipped=0, steps=6),
        3: Trained(outcome="done", applied=6, skipped=0, steps=6, verdicts=(missed,)),
        130: Trained(outcome="interrupted", applied=2, skipped=0, steps=6, signal=int(signal.SIGINT)),
        143: Trained(outcome="interrupted", applied=2, skipped=0, steps=6, signal=int(signal.SIGTERM)),
    }
    assert {status: _status(trained) for status, trained in ended.items()} == {status: status for status in ended}
