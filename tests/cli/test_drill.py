from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from mixprec.cli._drill_table import drill_row, print_drilled
from mixprec.cli._main import main
from mixprec.compare.drill import Drilled, FaultRun, HealthyRun

WORKLOAD = """
import torch
from torch import nn
import mixprec


def loss(model, batch):
    return (model(batch).float() - batch.sum(1, keepdim=True)).square().mean()


def workload(seed, device, steps=100):
    def batches(index):
        return torch.randn(32, 8, generator=torch.Generator().manual_seed(1000 * seed + index))

    torch.manual_seed(seed)
    return mixprec.Workload(
        model=nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)),
        loss=loss,
        batches=batches,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
        steps=steps,
        evaluate=lambda model: {"loss": loss(model, batches(999)).item()},
    )
"""

RUN = FaultRun(
    fault="learning-rate",
    seed=0,
    planted=40,
    within=10,
    detected=4,
    trigger="loss spike",
    site="",
    rungs=("rewind", "skip", "skip"),
    false_alarms=0,
    loss=2.01,
    loss_without_fault=2.0,
    loss_without_guard=2.5,
    recovered=True,
    harmless=False,
    worse=False,
    lost_steps=12,
    lost_seconds=0.5,
    ended="",
    folder="seed-0/learning-rate",
)
LOST = replace(
    RUN,
    seed=1,
    detected=None,
    trigger="",
    rungs=(),
    loss=math.nan,
    loss_without_guard=math.nan,
    recovered=False,
    ended="50 steps were skipped",
)


@pytest.fixture
def workload(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(WORKLOAD)
    return str(file)


def drilled(*runs: FaultRun, triggers: tuple[str, ...] = ()) -> Drilled:
    healthy = HealthyRun(seed=0, loss=2.0, triggers=triggers, seconds=1.0, folder="seed-0/no-fault")
    return Drilled(
        workload="gpt",
        recipe="bf16",
        steps=100,
        noise=0.05,
        healthy=(healthy,),
        runs=runs,
        sites={"fp4-site": "head"},
        left_out={"inf-moment": "no moments"},
    )


def test_a_row_tells_of_all_seeds():
    assert drill_row("learning-rate", [RUN, replace(RUN, detected=7)]) == (
        "learning-rate",
        "2/2: 4–7 (limit 10)",
        "loss spike",
        "rewind, skip x2",
        "2/2",
        "+0.0100",
        "+0.5000",
        "12",
        "0.50",
        "0/2",
    )
    row = drill_row("learning-rate", [LOST])
    assert row[1:8] == ("0/1: unseen (limit 10)", "–", "–", "0/1", "stopped 1/1", "diverged 1/1", "12")
    assert drill_row("learning-rate", [replace(RUN, loss_without_guard=1.77e9)])[6] == "+1.77e+09"
    other = replace(RUN, trigger="gradient spike", rungs=("stop",))
    assert drill_row("learning-rate", [RUN, RUN, other])[2:4] == ("loss spike (+1)", "rewind, skip x2 (+1)")


def test_what_did_not_pass_is_told_run_by_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    print_drilled(drilled(RUN, LOST, triggers=("loss spike",)), tmp_path)
    told = capsys.readouterr().out
    assert "fp4-site: at head\n" in told
    assert "inf-moment: left out, no moments\n" in told
    assert "no fault, seed 0: loss 2.0000, 1 false alarm(s): loss spike" in told
    assert "learning-rate, seed 1: not seen (limit 10); the run ended: 50 steps were skipped; loss nan" in told
    assert "learning-rate, seed 0:" not in told
    assert "1 of 2 runs with a fault passed, 1 false alarms in 1 runs without one: not passed\n" in told
    print_drilled(drilled(RUN), tmp_path)
    assert "0 false alarms in 1 runs without one: passed\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--steps", "50"], "takes 50 steps, a drill needs 100"),
        (["--seeds", "2"], "--seeds must be at least 3, got 2"),
        (["--fault", "bit-flop"], "unknown fault 'bit-flop': expected one of learning-rate, poisoned-batches"),
        (["--fault", "bit-flip", "--fault", "bit-flip"], "fault bit-flip is asked for more than once"),
        (["--recipe", "mxfp9"], "mxfp9"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--device", ""], "--device got an empty text"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(
    workload: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], what: str
):
    assert main(["drill", workload, "--out", str(tmp_path / "run"), *words]) == 2
    told = capfd.readouterr()
    assert what in told.err
    assert (told.err.count("\n"), told.out) == (1, "")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_drill_from_its_command_to_its_exit_status(workload: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    line = ["drill", workload, "--recipe", "bf16", "--fault", "bit-flip", "--fault", "inf-moment"]
    assert main([*line, "--out", str(tmp_path / "a")]) == 0
    told = capfd.readouterr()
    assert "15 of 15 runs: inf-moment, seed 2, under guard: seen after 0 step(s) (limit 0)" in told.err
    assert "6 of 6 runs with a fault passed, 0 false alarms in 3 runs without one: passed" in told.out
    assert main([*line[:-2], "--json", "--out", str(tmp_path / "b")]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found == json.loads((tmp_path / "b" / "drill.json").read_text())
    assert [run["passed"] for run in found["runs"]] == [True] * 3
