"""When a fault counts as seen, recovered from and made worse."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mixprec.compare.drill import FAULTS, Drilled, HealthyRun, told_fault, told_healthy
from mixprec.compare.drill._drilled import Rehearsed
from mixprec.compare.drill._judge import judge_fault, judge_healthy, seed_noise
from mixprec.records import IncidentRecord

HEALTHY = HealthyRun(seed=0, loss=2.0, triggers=(), seconds=1.0, folder="seed-0/no-fault")


def incident(**changes: Any) -> IncidentRecord:
    facts: dict[str, Any] = {
        "recipe": "bf16",
        "seed": 0,
        "number": 1,
        "step": 40,
        "trigger": "loss spike",
        "site": "",
        "evidence": {},
        "rung": "rewind",
        "action": "went back",
        "lost_seconds": 0.5,
    }
    return IncidentRecord(**(facts | changes))


def run(loss: float = 2.0, **changes: Any) -> Rehearsed:
    facts: dict[str, Any] = {"calls": 100, "applied": 100, "seconds": 1.0, "planted": 40, "folder": "seed-0/x"}
    losses = {} if math.isnan(loss) else {"recipe": loss, "fp32": loss - 0.01}
    return Rehearsed(losses=losses, **(facts | changes))


def judged(guarded: Rehearsed, alone: Rehearsed, fault: str = "learning-rate") -> Any:
    kind = FAULTS[fault]
    site = {"site": "0"} if fault in ("fp4-site", "frozen-scale") else {}
    return judge_fault(kind(at=40, **site), 0, guarded=guarded, alone=alone, healthy=HEALTHY, noise=0.1)


def test_seen_in_time_and_recovered():
    seen = (incident(), incident(number=2, rung="escalate"))
    found = judged(run(2.05, calls=118, incidents=seen, seen=(45, 60)), run(3.0))
    assert (found.detected, found.trigger, found.rungs, found.in_time) == (
        5,
        "loss spike",
        ("rewind", "escalate"),
        True,
    )
    assert (found.recovered, found.harmless, found.worse, found.passed) == (True, False, False, True)
    assert (found.lost_steps, found.lost_seconds) == (18, 1.0)
    assert told_fault(found) == (
        "seen after 5 step(s) (limit 10) by loss spike; done: rewind, escalate; recovered: loss 2.0500, without the "
        "fault 2.0000, without the guard 3.0000"
    )


def test_the_worse_forward_pass_counts():
    worse = Rehearsed(losses={"recipe": 2.0, "fp32": 2.5}, calls=100, applied=100, seconds=1.0, planted=40)
    assert not judged(worse, run(2.0)).recovered


def test_what_was_told_before_the_fault_is_a_false_alarm():
    found = judged(run(incidents=(incident(), incident(number=2)), seen=(39, 50)), run(3.0))
    assert (found.false_alarms, found.detected, found.in_time, found.passed) == (1, 10, True, False)


def test_seen_too_late_and_never():
    late = judged(run(incidents=(incident(),), seen=(51,)), run(3.0))
    assert (late.detected, late.in_time, late.passed) == (11, False, False)
    never = judged(run(), run(2.0))
    assert (never.detected, never.in_time) == (None, False)  # a limit holds for what does no harm too


@pytest.mark.parametrize(("alone", "is_fine"), [(2.05, True), (2.2, False)])
def test_without_a_limit_what_costs_nothing_may_go_unseen(alone: float, is_fine: bool):
    found = judged(run(alone), run(alone), "outlier")
    assert (found.in_time, found.passed) == (is_fine, is_fine)


def test_made_worse():
    assert judged(run(2.4), run(2.2)).worse
    assert not judged(run(2.25), run(2.2)).worse
    assert not judged(run(2.4), run(math.nan)).worse  # without the guard nothing would be left
    stopped = run(math.nan, ended="stopped", incidents=(incident(rung="stop"),), seen=(42,))
    assert judged(stopped, run(2.05)).worse
    assert not judged(stopped, run(9.0)).worse
    assert not judged(stopped, run(9.0)).recovered
    assert "the run ended: stopped" in told_fault(judged(stopped, run(9.0)))


def test_seed_noise():
    assert seed_noise([1.0, 1.0, 1.0]) == pytest.approx(0.005)
    assert seed_noise([0.9, 1.0, 1.1]) == pytest.approx(0.1 * 4.3027, rel=1e-4)
    assert seed_noise([0.9, 1.0, 1.1, 0.9, 1.1]) == pytest.approx(0.1 * 2.7764, rel=1e-4)
    assert math.isnan(seed_noise([1.0, math.nan, 1.0]))


def test_a_false_alarm_without_a_fault_fails_the_drill():
    quiet, loud = judge_healthy(0, run()), judge_healthy(1, run(incidents=(incident(),), seen=(30,)))
    facts: dict[str, Any] = {"workload": "w", "recipe": "r", "steps": 100, "noise": 0.1, "sites": {}, "left_out": {}}
    assert Drilled(healthy=(quiet,), runs=(), **facts).passed
    assert not Drilled(healthy=(quiet, loud), runs=(), **facts).passed
    assert told_healthy(quiet) == "loss 2.0000, no alarm"
    assert told_healthy(loud) == "loss 2.0000, 1 false alarm(s): loss spike"
