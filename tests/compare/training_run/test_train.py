from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from mixprec.compare import Audience, MetricGoal, Trained, Training, Workload, compare, train
from mixprec.records import RunEndRecord, StepRecord, TargetRow, read_records
from mixprec.specs import recipe
from mixprec.training import CheckpointNotWritten, Session
from tests.compare.fits import batch_of, comparison, fit, source
from tests.compare.training_run.killed import digest


def training(function: Any = fit, **changes: Any) -> Training:
    settings: dict[str, Any] = {"source": source(function), "recipe": recipe("mxfp8"), "checkpoint_every": 2}
    return Training(**(settings | changes))


def losses(folder: Path) -> list[float | None]:
    return [r.loss for r in read_records(folder / "records.jsonl") if isinstance(r, StepRecord)]


def stopping(seed: int, device: str, at: int, number: int) -> Workload:
    def batches(index: int) -> Any:
        if index == at:
            os.kill(os.getpid(), number)
        return batch_of(seed, index)

    return fit(seed, device, batches=batches)


def test_losses_are_those_of_a_comparison(tmp_path: Path):
    compare(comparison("mxfp8", seeds=(5,)), tmp_path / "compared")
    train(training(seed=5), tmp_path / "trained")
    assert losses(tmp_path / "trained") == losses(tmp_path / "compared")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_step_end_and_the_same_call_goes_on(tmp_path: Path, number: signal.Signals):
    before, told = signal.getsignal(number), list[str]()
    whole = train(training(), tmp_path / "whole")
    ended = train(
        training(source=source(stopping, at=2, number=number)),
        tmp_path / "run",
        audience=Audience(signalled=told.append),
    )
    assert (ended.outcome, ended.signal, ended.applied, told) == ("interrupted", number, 3, [number.name])
    assert ended.checkpoint is not None
    assert ended.checkpoint.name == "step-00000003"
    assert signal.getsignal(number) == before
    again = train(training(), tmp_path / "run")
    assert (again.outcome, again.applied, again.metrics) == ("done", 6, whole.metrics)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"recipe": recipe("bf16")}, "recipe 'mxfp8', now it is 'bf16'"),
        ({"seed": 1}, "--seed 0, now it is 1"),
        ({"source": source(fit, steps=7)}, "--steps 6, now it is 7"),
    ],
)
def test_another_run_is_refused_in_words(tmp_path: Path, changes: dict[str, Any], what: str):
    train(training(), tmp_path)
    before = (tmp_path / "records.jsonl").read_bytes()
    with pytest.raises(ValueError, match=what):
        train(training(**changes), tmp_path)
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_folder_of_something_else_is_refused(tmp_path: Path):
    compare(comparison("fp32"), tmp_path / "compared")
    with pytest.raises(ValueError, match="did not begin"):
        train(training(), tmp_path / "compared")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match=r"holds thesis\.tex"):
        train(training(), tmp_path / "mine")


def test_an_exception_ends_the_run_as_failed_and_it_goes_on_when_mended(tmp_path: Path):
    def failing(seed: int, device: str) -> Workload:
        def batches(index: int) -> Any:
            if index == 3:
                raise KeyError("shard 3")
            return batch_of(seed, index)

        return fit(seed, device, batches=batches)

    whole = train(training(), tmp_path / "whole")
    ended = train(training(failing), tmp_path / "run")
    assert (ended.outcome, ended.reason) == ("failed", "at step 4: KeyError: 'shard 3'")
    ends = [r for r in read_records(tmp_path / "run" / "records.jsonl") if isinstance(r, RunEndRecord)]
    assert [(end.status, end.reason) for end in ends] == [("failed", ended.reason)]
    assert train(training(), tmp_path / "run").metrics == whole.metrics


def test_targets_are_judged_by_what_the_forward_pass_costs(tmp_path: Path):
    rows = tuple(
        TargetRow(name=name, limit=limit, unit=unit, better="lower")  # pyright: ignore[reportArgumentType]
        for name, limit, unit in (
            ("quality.loss", 1e-9, "absolute"),
            ("latency.milliseconds", 1e6, "milliseconds"),
            ("latency.ratio", 1.0, "ratio"),
        )
    )
    ended: Trained = train(training(targets=rows), tmp_path)
    gap = ended.metrics["recipe"]["loss"] - ended.metrics["fp32"]["loss"]
    quality, latency, ratio = ended.verdicts
    assert quality.measured == gap
    assert quality.outcome == ("missed" if gap > 1e-9 else "met")
    assert (latency.outcome, ratio.outcome) == ("not resolved", "not resolved")
    assert "emulated" in latency.reason
    assert "no baseline" in ratio.reason


def test_a_goal_of_the_workload_is_a_target(tmp_path: Path):
    def judged(seed: int, device: str) -> Workload:
        return fit(seed, device, metrics={"loss": MetricGoal(absolute=10.0)})

    (verdict,) = train(training(judged), tmp_path).verdicts
    assert (verdict.target, verdict.outcome) == ("quality.loss", "met")


def test_a_full_disk_is_told_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own, said = Session.save, list[str]()

    def save(self: Session, *args: Any, **options: Any) -> Path:
        if self.applied == 2:
            raise CheckpointNotWritten("the disk is full")
        return own(self, *args, **options)

    monkeypatch.setattr(Session, "save", save)
    ended = train(training(), tmp_path, audience=Audience(says=said.append))
    assert ended.outcome == "done"
    assert any(sentence.startswith("the disk is full") for sentence in said)


def test_a_run_that_can_apply_no_step_is_stopped_and_fails_without_a_guard(tmp_path: Path):
    def hopeless(seed: int, device: str) -> Workload:
        def batches(index: int) -> Any:
            x, y = batch_of(seed, index)
            return (x, y * float("nan")) if index >= 3 else (x, y)

        return fit(seed, device, batches=batches)

    stopped = train(training(hopeless), tmp_path / "guarded")
    assert stopped.outcome == "stopped"
    assert [incident.outcome for incident in stopped.incidents][-1] == "stopped"
    assert {incident.trigger for incident in stopped.incidents} == {"loss not finite"}
    ended = train(training(hopeless, guard=None), tmp_path / "alone")
    assert (ended.outcome, ended.applied) == ("failed", 3)
    assert ended.reason.startswith("100 steps were skipped one after another")


def test_random_states_are_given_back(tmp_path: Path):
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    train(training(), tmp_path)
    assert torch.equal(torch.rand(1), expected)
