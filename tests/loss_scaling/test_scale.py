from __future__ import annotations

import random

import pytest

from mixprec.loss_scaling import ScaleState, after_step, init, parse_loss_scale
from mixprec.specs import LossScale


def run(spec, finite, state=None):
    state = init(spec) if state is None else state
    trace, events = [], []
    for ok in finite:
        state, new = after_step(spec, state, ok)
        trace.append((state.scale, state.good_steps))
        events += new
    return trace, events


def test_the_defaults_are_torchs():
    spec = LossScale(kind="dynamic")
    assert (spec.initial, spec.growth, spec.backoff, spec.interval) == (65536, 2, 0.5, 2000)


def test_dynamic_follows_the_trace_of_grad_scaler():
    spec = LossScale(kind="dynamic", initial=256, interval=3)
    trace, _ = run(spec, [True, False, True, True, True, True, True, True])
    assert trace == [(256, 1), (128, 0), (128, 1), (128, 2), (256, 0), (256, 1), (256, 2), (512, 0)]


@pytest.mark.parametrize("kind", ["none", "static"])
def test_none_and_static_never_change(kind):
    spec = LossScale(kind=kind, initial=1024)
    trace, events = run(spec, [True, False, True])
    assert set(trace) == {(1.0 if kind == "none" else 1024, 0)}
    assert not events


def test_the_ceiling_is_told_once_for_each_stay():
    spec = LossScale(kind="dynamic", initial=2.0**125, interval=1)
    trace, events = run(spec, [True] * 10)
    assert [s for s, _ in trace[:3]] == [2.0**126, 2.0**127, 2.0**127]
    assert [e.name for e in events] == ["loss scale ceiling"]
    trace, events = run(spec, [False, True, True], ScaleState(2.0**127, 1))
    assert [s for s, _ in trace] == [2.0**126, 2.0**127, 2.0**127]
    assert len(events) == 1


def test_a_scale_that_starts_at_the_ceiling_tells_it_at_the_first_growth():
    spec = LossScale(kind="dynamic", initial=8, maximum=8, interval=2)
    _, events = run(spec, [True])
    assert not events
    trace, events = run(spec, [True] * 9)
    assert {s for s, _ in trace} == {8}
    assert len(events) == 1


def test_the_floor_is_told_once_for_each_stay():
    spec = LossScale(kind="dynamic", initial=2.0**-22)
    trace, events = run(spec, [False] * 6)
    assert [s for s, _ in trace] == [2.0**-23] + [2.0**-24] * 5
    assert [e.name for e in events] == ["loss scale floor"]
    assert "2^-24" in events[0].message


def test_a_nan_streak_never_drives_the_scale_to_zero():
    for spec in (
        LossScale(kind="dynamic"),
        LossScale(kind="dynamic", hysteresis=3, minimum=2.0**-149, initial=2.0**127),
        LossScale(kind="dynamic", minimum=2.0**-149, backoff=2.0**-100),
    ):
        trace, events = run(spec, [False] * 5000)
        assert trace[-1] == (spec.minimum, 0)
        assert min(scale for scale, _ in trace) == spec.minimum > 0
        assert [e.name for e in events if e.name != "loss scale alarm"] == ["loss scale floor"]


def test_hysteresis_follows_megatrons_counter():
    spec = LossScale(kind="dynamic", initial=256, hysteresis=2, interval=2)
    # An overflow between good steps counts; once the count is used up each one shrinks; growth restores the count.
    trace, _ = run(spec, [False, True, False, False, True, True, False, False])
    assert [s for s, _ in trace] == [256, 256, 128, 64, 64, 128, 128, 64]


def megatron(spec, finite):
    """The update rule of Megatron-LM's dynamic scaler, written from its documentation."""
    scale, growth, hysteresis, trace = spec.initial, 0, spec.hysteresis, []
    for ok in finite:
        if ok:
            growth += 1
            if growth == spec.interval:
                scale, growth, hysteresis = scale * spec.growth, 0, spec.hysteresis
        else:
            growth, hysteresis = 0, hysteresis - 1
            if hysteresis <= 0:
                scale = max(scale * spec.backoff, spec.minimum)
        trace.append((scale, growth))
    return trace


@pytest.mark.parametrize("hysteresis", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_random_traces_are_megatrons(hysteresis, seed):
    draw = random.Random(seed)
    finite = [draw.random() < 0.7 for _ in range(300)]
    spec = LossScale(kind="dynamic", hysteresis=hysteresis, interval=3, initial=2.0**10, minimum=2.0**-10)
    assert run(spec, finite)[0] == megatron(spec, finite)


@pytest.mark.parametrize("kind", ["none", "static", "dynamic"])
def test_a_streak_of_skipped_steps_raises_the_alarm_once(kind):
    spec = LossScale(kind=kind, alarm_after=3)
    _, events = run(spec, [False] * 2 + [True] + [False] * 10 + [True] + [False] * 3)
    alarms = [e.message for e in events if e.name == "loss scale alarm"]
    assert len(alarms) == 2
    assert alarms[0].startswith("3 steps in a row were skipped")


def test_a_floor_that_is_the_start_is_told_at_the_first_overflow():
    _, events = run(LossScale(kind="dynamic", initial=2.0**-24), [False] * 3)
    assert [e.name for e in events] == ["loss scale floor"]


@pytest.mark.parametrize("wrong", [{"initial": 1000.0}, {"growth": 1.5}, {"backoff": 0.3}, {"maximum": 2.0**20 + 1}])
def test_a_scale_that_would_round_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a power of two"):
        init(LossScale(kind="dynamic", **wrong))


def test_short_forms():
    spec = LossScale(kind="dynamic", initial=2)
    assert parse_loss_scale(spec) is spec
    assert parse_loss_scale("none") == LossScale()
    assert parse_loss_scale(2**15) == LossScale(kind="static", initial=2.0**15)
    with pytest.raises(ValueError, match="dynamic"):
        parse_loss_scale("dynamik")
