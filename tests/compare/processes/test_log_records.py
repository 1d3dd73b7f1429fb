from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mixprec.compare.processes._log_records import LogFile, Logged, read_logs
from mixprec.compare.processes._read_rows import LogError
from mixprec.records import EvaluationRecord, StepRecord


def read(tmp_path: Path, rows: list[dict[str, object]], **keys: str) -> Logged:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [LogFile(name=name, path=path, key=key) for name, key in ({"loss": "val"} | keys).items()]
    return read_logs(files, "mine", 3)


def steps(logged: Logged) -> dict[int, float | None]:
    return {record.step: record.loss for record in logged.records if isinstance(record, StepRecord)}


def evaluations(logged: Logged) -> dict[int, dict[str, float]]:
    return {r.step: dict(r.metrics) for r in logged.records if isinstance(r, EvaluationRecord)}


def test_a_log_that_counts_from_1_and_one_that_counts_from_0_are_alike(tmp_path: Path):
    from_1 = read(tmp_path, [{"step": 1, "val": 3.0}, {"step": 2, "val": 2.0}])
    from_0 = read(tmp_path, [{"step": 0, "val": 3.0}, {"step": 1, "val": 2.0}])
    assert steps(from_1) == steps(from_0) == {0: 3.0, 1: 2.0}
    assert evaluations(from_1) == evaluations(from_0) == {1: {"loss": 3.0}, 2: {"loss": 2.0}}
    assert from_1.steps == 2


def test_losses_of_steps_and_of_evaluations_are_told_apart(tmp_path: Path):
    rows = [{"step": s, "train": 10.0 - s, "dt": 0.5} | ({"val": 20.0 - s} if s % 2 else {}) for s in range(4)]
    logged = read(tmp_path, rows, train_loss="train", step_seconds="dt")
    assert steps(logged) == {0: 10.0, 1: 9.0, 2: 8.0, 3: 7.0}
    assert {r.seconds for r in logged.records if isinstance(r, StepRecord)} == {0.5}
    assert evaluations(logged) == {1: {"loss": 19.0}, 3: {"loss": 17.0}}
    assert logged.steps == 4


def test_steps_whose_time_nobody_tells_have_none(tmp_path: Path):
    logged = read(tmp_path, [{"val": 1.0}])
    (step,) = [record for record in logged.records if isinstance(record, StepRecord)]
    assert math.isnan(step.seconds)


def test_the_last_evaluation_has_the_last_value_of_every_metric(tmp_path: Path):
    rows: list[dict[str, object]] = [{"step": 1, "val": 3, "acc": 0.1}, {"step": 2, "acc": 0.4}, {"step": 3, "val": 2}]
    assert evaluations(read(tmp_path, rows, accuracy="acc")) == {
        1: {"loss": 3.0, "accuracy": 0.1},
        3: {"loss": 2.0, "accuracy": 0.4},
    }


def test_of_two_rows_of_one_step_the_later_stands(tmp_path: Path):
    assert evaluations(read(tmp_path, [{"step": 1, "val": 3}, {"step": 1, "val": 2}])) == {1: {"loss": 2.0}}


def test_a_loss_that_is_not_finite_is_a_divergence(tmp_path: Path):
    logged = read(tmp_path, [{"step": 5, "val": 3}, {"step": 6, "val": math.nan}, {"step": 7, "val": math.inf}])
    assert logged.diverged == "the loss was nan at step 6 (log.jsonl, line 2)"
    assert read(tmp_path, [{"val": 3, "train": math.inf}], train_loss="train").diverged.startswith(
        "the train loss was inf"
    )


def test_another_metric_that_is_no_number_at_the_end_is_an_error(tmp_path: Path):
    assert evaluations(read(tmp_path, [{"val": 3, "acc": math.nan}, {"val": 3, "acc": 1}], accuracy="acc"))
    with pytest.raises(LogError, match=r"metric accuracy is nan in its last row \(log\.jsonl, line 1\)"):
        read(tmp_path, [{"val": 3, "acc": math.nan}], accuracy="acc")
