from __future__ import annotations

import json
import math
import random

import pytest

from mixprec.monitor import Alarms, Thresholds


def names(alarms: Alarms, **told: object) -> list[str]:
    return [finding.name for finding in alarms.step(**told)]


def calm(alarms: Alarms, steps: int, *, first: int = 0, seed: int = 0) -> list[str]:
    source = random.Random(seed)
    found: list[str] = []
    for i in range(first, first + steps):
        found += names(alarms, step=i, loss=source.gauss(2.0, 0.02), grad_norm=source.lognormvariate(0.0, 0.3))
    return found


def test_a_calm_run_is_silent():
    assert calm(Alarms(), 3000) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_a_fault_at_once_and_once(value: float):
    alarms = Alarms()
    (finding,) = alarms.step(step=0, loss=value)
    assert (finding.name, finding.severity, finding.step) == ("loss not finite", "fault", 0)
    assert alarms.step(step=0, loss=value) == ()


def test_a_spike_and_the_rise_that_follows_are_told_once():
    alarms = Alarms()
    calm(alarms, 100)
    found = [name for i in range(30) for name in names(alarms, step=100 + i, loss=4.0)]
    assert found == ["loss spike"]


def test_a_small_lasting_rise_is_told():
    alarms = Alarms()
    calm(alarms, 100)
    source = random.Random(1)
    told = [(i, n) for i in range(12) for n in names(alarms, step=100 + i, loss=source.gauss(2.15, 0.02))]
    assert [name for _, name in told] == ["loss rise"]
    assert told[0][0] <= 8


def test_a_new_level_is_believed_and_a_second_event_told():
    alarms = Alarms(Thresholds(rearm=20))
    calm(alarms, 100)
    assert [n for i in range(120) for n in names(alarms, step=i, loss=4.0 + 0.02 * (i % 3))] == ["loss spike"]
    assert names(alarms, step=300, loss=40.0) == ["loss spike"]


def test_a_spike_of_the_norm_and_a_drift():
    alarms = Alarms()
    calm(alarms, 150)
    assert names(alarms, step=150, grad_norm=40.0) == ["gradient spike"]
    drifting = [n for i in range(400) for n in names(alarms, step=151 + i, grad_norm=1.0 + i / 40)]
    assert drifting == ["gradient-norm drift"]


def test_gradients_of_zeros_are_a_fault_told_once():
    alarms = Alarms()
    told = [n for i in range(20) for n in names(alarms, step=i, loss=2.0, grad_norm=0.0)]
    assert told == ["gradient of zeros"]
    assert [n for i in range(4) for n in names(Alarms(), step=i, grad_norm=0.0)] == []


def test_norms_that_always_jump_about_raise_nothing():
    alarms, source = Alarms(), random.Random(0)
    assert [n for i in range(2000) for n in names(alarms, step=i, grad_norm=source.lognormvariate(0.0, 2.0))] == []


def test_the_way_down_from_a_loss_scales_start_is_no_collapse():
    alarms, scale, found = Alarms(), 2.0**40, []
    for i in range(20):  # a long way, with an applied step in between
        found += names(alarms, step=i // 3, loss_scale=scale, applied=i % 3 == 2)
        scale *= 1.0 if i % 3 == 2 else 0.5
    assert found == []


def test_probing_upward_is_no_collapse_and_falling_is():
    alarms, step, found = Alarms(), 0, []
    for _ in range(20):  # grows every 100 steps and falls back
        for i in range(100):
            found += names(alarms, step=step, loss_scale=2.0**16 if i else 2.0**17, applied=i > 0)
            step += i > 0
    assert found == []
    scale = 2.0**16
    for i in range(30):
        found += names(alarms, step=step, loss_scale=scale, applied=i % 3 > 0)
        scale *= 0.5 if i % 3 == 0 else 1.0
    assert found == ["loss scale collapse"]


def test_steps_skipped_in_a_row_are_told_once_at_the_limit():
    alarms = Alarms()
    told = [n for _ in range(20) for n in names(alarms, step=5, applied=False)]
    assert told == ["steps skipped in a row"]
    assert names(Alarms(Thresholds(skipped_in_row=1)), step=0, applied=False) == ["steps skipped in a row"]


def test_the_norm_of_a_skipped_step_is_left_out():
    alarms = Alarms()
    calm(alarms, 100)
    assert names(alarms, step=100, grad_norm=math.inf, applied=False) == []
    assert names(alarms, step=100, grad_norm=1e6, applied=False) == []


def test_state_goes_through_json_and_continues_alike():
    whole, first, second = Alarms(), Alarms(), Alarms()
    for alarms in (whole, first):
        calm(alarms, 120)
        alarms.step(step=120, loss=9.0, grad_norm=99.0, loss_scale=8.0)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for i in range(200):
        told = {"step": 121 + i, "loss": 2.0 + (i % 7) * 0.05 * (i > 60), "grad_norm": 1.0 + i / 10}
        assert second.step(**told) == whole.step(**told)
    assert second.state_dict() == whole.state_dict()


@pytest.mark.parametrize(
    ("name", "value"), [("window", 0), ("flushed", 1.0), ("loss_mad", -1.0), ("rearm", 2.5), ("norm_spike", math.nan)]
)
def test_thresholds_that_make_no_sense_are_refused(name: str, value: float):
    with pytest.raises(ValueError, match=name):
        Thresholds(**{name: value})
