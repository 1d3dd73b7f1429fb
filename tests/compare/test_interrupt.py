from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from mixprec.compare import Workload, compare, compare_commands
from mixprec.compare._interrupt import Interrupt
from mixprec.compare.processes._run_place import run_place
from mixprec.records import Record, RunEndRecord, StepRecord, read_records
from tests.compare.fits import batch_of, comparison, fit, source
from tests.compare.processes.scripts import script_box


class Swallowing:
    """Ctrl-C while a finalizer runs: Python drops whatever is raised in one."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def interrupted(seed: int, device: str, at: int) -> Workload:
    def batches(step: int) -> Iterable[Tensor]:
        if step == at:
            Swallowing()
        return batch_of(seed, step)

    return fit(seed, device, batches=batches)


# The third step is the one whose memory is measured.
@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_finalizer_stops_after_the_step(tmp_path: Path, at: int):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compare(comparison("fp32", source=source(interrupted, at=at)), tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) == before
    records = list(read_records(tmp_path / "run" / "records.jsonl"))
    assert [r.step for r in records if isinstance(r, StepRecord)] == list(range(at + 1))
    (end,) = [r for r in records if isinstance(r, RunEndRecord)]
    assert (end.status, end.reason) == ("interrupted", "stopped by the user")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_finalizer_of_the_trial_leaves_no_folder(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        compare(comparison("fp32", source=source(interrupted, at=0)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_finalizer_stops_the_commands(tmp_path: Path):
    out = tmp_path / "run"

    def swallow(record: Record) -> None:
        if isinstance(record, RunEndRecord) and record.recipe == "base":
            Swallowing()

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compare_commands(script_box(tmp_path, "base", "slow", "never"), out, jobs=2, on_record=swallow)
    assert signal.getsignal(signal.SIGINT) == before
    ends = [r for r in read_records(out / "records.jsonl") if isinstance(r, RunEndRecord)]
    assert [(end.recipe, end.status) for end in ends] == [("base", "done"), ("slow", "interrupted")]
    assert ends[-1].reason == "stopped by the user"
    with pytest.raises(ProcessLookupError):
        os.kill(int((run_place(out, "slow", 0) / ".process").read_text()), 0)


def test_a_handler_of_the_callers_own_is_called_and_not_overruled():
    seen: list[int] = []

    def own(number: int, frame: Any) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            interrupt.check()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_handler_that_was_put_on_top_stays():
    before = signal.getsignal(signal.SIGINT)
    try:
        with Interrupt():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_on_another_thread_nothing_is_installed():
    before, found = signal.getsignal(signal.SIGINT), list[Any]()

    def enter() -> None:
        with Interrupt() as interrupt:
            found.append(signal.getsignal(signal.SIGINT))
            interrupt.check()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]
