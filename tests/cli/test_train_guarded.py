"""``mixprec train`` under guard, end to end: what it prints, and its exit status."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from mixprec.cli._main import main
from mixprec.records import EventRecord, IncidentRecord, read_records

WORKLOAD = """
import json, os
import torch
from torch import nn
import mixprec


def loss(model, batch):
    return (model(batch).float() - batch.sum(1, keepdim=True)).square().mean()


def workload(seed, device):
    bad = json.loads(os.environ.get("BAD", "[]"))

    def batches(index):
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(index))
        return x * float("nan") if index in bad else x

    torch.manual_seed(seed)
    return mixprec.Workload(
        model=nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)),
        loss=loss,
        batches=batches,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        steps=24,
        evaluate=lambda model: {"loss": loss(model, batches(9999)).item()},
    )
"""


@pytest.fixture
def line(tmp_path: Path) -> list[str]:
    file = tmp_path / "mine.py"
    file.write_text(WORKLOAD)
    return ["train", str(file), "--recipe", "bf16", "--out", str(tmp_path / "run")]


def bad(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    monkeypatch.setenv("BAD", json.dumps(numbers))


def test_an_incident_is_printed_and_the_run_is_done(
    line: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    bad(monkeypatch, 5, 6)
    assert main(line) == 0
    told = capfd.readouterr()
    assert told.out.startswith("done: 24 of 24 steps, 2 skipped\n")
    assert (
        f"incident 1: step 5: loss not finite: the step is left out, with batches 5 to 6; recovered "
        f"(mixprec doctor {line[-1]} --incident 1)\n" in told.out
    )
    assert "step 5: incident 1: loss not finite" in told.err
    assert main(["doctor", line[-1], "--incident", "1"]) == 0
    assert capfd.readouterr().out.startswith("# Incident 1 of run")


def test_a_guard_without_a_rung_left_stops_the_run_with_status_4_and_again_when_nothing_has_changed(
    line: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    bad(monkeypatch, *range(5, 200))
    assert main(line) == 4
    told = capfd.readouterr()
    assert told.out.startswith("stopped: ")
    assert "; stopped (mixprec doctor" in told.out
    assert "the guard has no rung left and stops the run" in told.err
    assert main(line) == 4
    capfd.readouterr()
    bad(monkeypatch)
    assert main(line) == 0
    assert capfd.readouterr().out.startswith("done: 24 of 24 steps")
    records = read_records(Path(line[-1]) / "records.jsonl")
    last = {record.number: record for record in records if isinstance(record, IncidentRecord)}
    assert sorted(last) == list(range(1, len(last) + 1))
    assert "open" not in {record.outcome for record in last.values()}


@pytest.mark.parametrize(("words", "has_noise"), [([], False), (["--shadow-backward"], True)])
def test_a_shadow_tells_the_gap_and_with_backward_the_noise_of_the_gradient(
    line: list[str], words: list[str], has_noise: bool
):
    assert main([*line, "--shadow-every", "8", *words]) == 0
    told = [
        r for r in read_records(Path(line[-1]) / "records.jsonl") if isinstance(r, EventRecord) and r.name == "shadow"
    ]
    assert [record.step for record in told] == [8, 16, 24]
    assert all("(gap " in record.message for record in told)
    assert {"its rounding noise" in record.message for record in told} == {has_noise}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--dry-run", "--no-guard"], "--dry-run tells what the guard would do, and --no-guard leaves it out"),
        (
            ["--on-incident", "no-such-program-here --now"],
            "mixprec: IncidentCommand finds no program 'no-such-program-",
        ),
        (["--shadow-backward"], "--shadow-backward says how shadows are run, and there are none: give --shadow-every"),
        (["--webhook", "ftp://here"], "expected http://HOST/... or https://HOST/..."),
    ],
)
def test_a_mistake_is_told_before_training(
    line: list[str], capfd: pytest.CaptureFixture[str], words: list[str], what: str
):
    assert main([*line, *words]) == 2
    told = capfd.readouterr()
    assert what in told.err
    assert not Path(line[-1]).exists()


@pytest.mark.slow
def test_a_webhook_that_hangs_holds_up_nothing_but_the_end(
    line: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    bad(monkeypatch, 5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        start = time.monotonic()
        with pytest.warns(RuntimeWarning, match="no answer within 10 s|IncidentWebhook"):
            assert main([*line, "--webhook", f"http://127.0.0.1:{server.getsockname()[1]}/x"]) == 0
        assert time.monotonic() - start < 25.0
    assert capfd.readouterr().out.startswith("done: 24 of 24 steps, 1 skipped")
    assert any(isinstance(r, EventRecord) for r in read_records(Path(line[-1]) / "records.jsonl"))
