from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mixprec.cli._progress import Progress
from mixprec.records import ComparisonRecord, EvaluationRecord, RunEndRecord, StepRecord

HEADER = ComparisonRecord(
    workload="gpt", recipes=("fp32", "bf16"), baseline="fp32", seeds=(0,), steps=4, machine={}, versions={}, data={}
)


def step(i: int, recipe: str = "bf16", applied: bool = True) -> StepRecord:
    return StepRecord(
        recipe=recipe,
        seed=0,
        step=i,
        loss=2.5,
        seconds=0.5,
        applied=applied,
        grad_norm=1.0,
        loss_scale=None,
        tokens=1000,
    )


def shown(records: list[object], *, terminal: bool, width: int = 120) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    with Progress(console) as progress:
        for record in records:
            progress.show(record)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


def test_a_terminal_shows_loss_speed_and_time_left():
    text = shown([HEADER, step(0), step(1)], terminal=True)
    assert "loss 2.5000" in text
    assert "2,000 tokens/s" in text
    assert "time left" in text
    assert "2/4" in text


@pytest.mark.parametrize("width", [72, 80, 100, 120])
def test_every_bar_keeps_to_one_line(width: int):
    names = ("fp32", "mxfp8", "fp8-rowwise-gw-hp")
    header = replace(HEADER, recipes=names, steps=1000)
    records = [header, *(replace(step(i, name, applied=False), tokens=99_999) for i in range(2) for name in names)]
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(records, terminal=True, width=width))
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    assert all(line.startswith((*names, "all")) for line in lines), lines
    assert any(re.search(r"time left +[-0-9:]+$", line) for line in lines)
    assert max(map(len, lines)) <= width


def test_a_skipped_step_is_told():
    assert "skipped" in shown([HEADER, step(0, applied=False)], terminal=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_that_ends_ill_is_told_at_once(terminal: bool):
    end = RunEndRecord(recipe="bf16", seed=0, status="diverged", reason="the loss was nan at step 3")
    assert "bf16 seed 0 diverged: the loss was nan at step 3" in shown([HEADER, step(0), end], terminal=terminal)


def test_a_pipe_gets_a_line_per_evaluation_and_no_bars():
    evaluation = EvaluationRecord(recipe="bf16", seed=0, step=2, forward="recipe", metrics={"loss": 2.25})
    twin = EvaluationRecord(recipe="bf16", seed=0, step=2, forward="fp32", metrics={"loss": 2.24})
    lines = shown([HEADER, step(0), step(1), evaluation, twin], terminal=False).splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("bf16 seed 0 step 2: loss 2.2500")
