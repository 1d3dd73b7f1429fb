"""What a workload says of its metrics, and what targets are in the records."""

from __future__ import annotations

from typing import Any

import pytest

from mixprec.compare import MetricGoal, WorkloadError, target_rows
from mixprec.compare._comparison import check
from mixprec.planner import CostTarget, LatencyTarget, MemoryTarget, QualityTarget, Targets
from tests.compare.fits import comparison, fit, source


def test_each_target_is_a_row():
    targets = Targets(
        quality={"loss": QualityTarget(relative=0.01), "f1": QualityTarget(absolute=0.02, better="higher")},
        latency=LatencyTarget(ratio=0.8, milliseconds=12),
        memory=MemoryTarget(bytes=10, share=0.9),
        cost=CostTarget(largest=3.0),
    )
    assert [tuple(row.values()) for row in target_rows(targets)] == [
        ("quality.loss", 0.01, "relative", "lower"),
        ("quality.f1", 0.02, "absolute", "higher"),
        ("latency.ratio", 0.8, "ratio", "lower"),
        ("latency.milliseconds", 12.0, "milliseconds", "lower"),
        ("memory.bytes", 10.0, "bytes", "lower"),
        ("memory.share", 0.9, "share", "lower"),
        ("cost.largest", 3.0, "price", "lower"),
    ]


def with_metrics(**goals: MetricGoal) -> Any:
    def function(seed: int, device: str):
        return fit(seed, device, evaluate=lambda model: {"loss": 1.0, "f1": 0.5, "f1/rare": 0.2}, metrics=goals)

    return source(function)


def test_the_workloads_goals_are_recorded_beside_the_targets():
    goals = {"f1": MetricGoal(better="higher", absolute=0.02), "loss": MetricGoal(relative=0.1)}
    asked = target_rows(Targets(quality={"loss": QualityTarget(absolute=0.5)}))
    header = check(comparison("fp32", source=with_metrics(**goals), targets=asked))
    assert header.better == {"f1": "higher", "loss": "lower"}
    assert [(row["name"], row["limit"], row["better"]) for row in header.targets] == [
        ("quality.loss", 0.5, "lower"),
        ("quality.f1", 0.02, "higher"),
    ]


def test_a_target_in_the_wrong_direction_is_refused():
    asked = target_rows(Targets(quality={"f1": QualityTarget(absolute=0.5, better="lower")}))
    made = comparison("fp32", source=with_metrics(f1=MetricGoal(better="higher")), targets=asked)
    with pytest.raises(ValueError, match=r'quality.f1 counts lower values as better.*write better = "higher"'):
        check(made)


def test_a_goal_for_a_metric_that_is_not_evaluated_is_refused():
    with pytest.raises(WorkloadError, match=r"'f2'.*f1"):
        check(comparison("fp32", source=with_metrics(f2=MetricGoal())))


@pytest.mark.parametrize("gap", [{"absolute": -1.0}, {"relative": float("nan")}, {"absolute": 1.0, "relative": 1.0}])
def test_a_goal_that_is_no_gap_is_refused(gap: dict[str, float]):
    with pytest.raises(ValueError, match=r"expected"):
        MetricGoal(**gap)
