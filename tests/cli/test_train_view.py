"""What ``mixprec train`` shows of a run."""

from __future__ import annotations

import io

from rich.console import Console

from mixprec.cli._train_view import TrainView
from mixprec.records import Record
from tests.report.guarded_run import STEPS, guarded, incident


def shown(records: list[Record], *, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160, height=50, color_system=None)
    view = TrainView("gpt", STEPS, console, clock=lambda: 0.0)
    for record in records:
        view.take(record)
    view.close()
    return out.getvalue()


def test_plain_lines_tell_an_incident_when_it_is_seen_and_when_it_is_settled():
    lines = shown([*guarded(), list(guarded())[-31]], terminal=False).splitlines()
    told = [line for line in lines if "incident" in line]
    assert [line.split(" ", 1)[1].split("; ")[0] for line in told] == [
        "step 100: incident 1: loss spike at blocks.0.attn.qkv (input)"
    ] * 2
    assert "; open; " in told[0]
    assert "; recovered at step 120; " in told[1]


def test_the_picture_shows_incidents():
    text = shown([*guarded(), incident(2, step=150, rung="stop", outcome="stopped")], terminal=True)
    last = text[text.rindex("gpt  fp16") :]
    assert "2: loss spike at blocks.0.attn.qkv (input)  stop  stopped the run" in last
    assert "1: loss spike at blocks.0.attn.qkv (input)  rewind  recovered at step 120" in last
    assert f"step {STEPS} of {STEPS}" in last
