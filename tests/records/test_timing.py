"""Step times beyond their middle."""

from __future__ import annotations

import math

import pytest

from mixprec.records import StepRecord, summarize, times_table
from mixprec.records._timing import time_steps


def steps(seconds: list[float], tokens: int | None = 10, recipe: str = "low", seed: int = 0) -> dict[int, StepRecord]:
    return {
        i: StepRecord(
            recipe=recipe, seed=seed, step=i, loss=2.0, seconds=one, applied=True, grad_norm=None, loss_scale=None,
            tokens=tokens,
        )
        for i, one in enumerate(seconds)
    }  # fmt: skip


def test_the_slowest_steps_and_the_throughput():
    seconds = [9.0] * 3 + [0.001 * i for i in range(1, 101)]
    timing = time_steps({0: steps(seconds)}, {0: steps([0.01] * 10)})
    assert timing is not None
    assert (timing.steps, timing.p95, timing.p99) == (100, pytest.approx(0.095), pytest.approx(0.099))
    assert timing.tokens_per_second == pytest.approx(1000 / 5.05)
    assert timing.throughput[0] == pytest.approx(100 / 0.055)
    assert len(timing.throughput) == 10
    assert timing.ratios == {0: pytest.approx(5.05)}


def test_few_steps_have_no_slowest_percentiles():
    timing = time_steps({0: steps([0.1] * 9)}, {})
    assert timing is not None
    assert (timing.p95, timing.p99, timing.split_half, timing.throughput) == (None, None, None, ())


def test_how_well_times_repeat():
    timing = time_steps({0: steps([9.0] * 3 + [0.1] * 10 + [0.12] * 10)}, {})
    assert timing is not None
    assert timing.split_half == pytest.approx(0.02 / 0.11)
    assert timing.interquartile == pytest.approx(0.02 / 0.11)


def test_times_that_nobody_told_are_left_out():
    assert time_steps({0: steps([math.nan] * 20)}, {}) is None
    timing = time_steps({0: steps([0.1] * 20, tokens=None)}, {})
    assert timing is not None
    assert timing.tokens_per_second is None
    assert timing.throughput[0] == pytest.approx(10), "steps per second"


def test_the_interval_of_a_ratio_is_that_of_its_logarithms():
    runs = {seed: steps([0.1 * ratio] * 9) for seed, ratio in enumerate((0.5, 1.0, 2.0))}
    timing = time_steps(runs, {seed: steps([0.1] * 9) for seed in range(3)})
    assert timing is not None
    half = math.exp(4.30265 * math.log(2) / math.sqrt(3))
    assert timing.ratio_interval == pytest.approx((1 / half, half), rel=1e-4)


def test_the_noise_of_the_machine_is_told():
    records = [
        record
        for recipe, seconds in (("fp32", 0.1), ("low", 0.05))
        for seed in (0, 1, 2)
        for record in steps([seconds] * 60, recipe=recipe, seed=seed).values()
    ]
    table = times_table(summarize(records))
    assert table is not None
    assert table.headers == (
        "recipe",
        "step",
        "ratio",
        "p95",
        "p99",
        "tokens/s",
        "steps to equal loss",
        *table.headers[-1:],
    )
    assert table.rows[1][:3] == ("low", "50 ms", "0.50× (0.50× to 0.50×)")
    assert table.rows[1][-2:] == ("1.00×", "2.00×"), "as many steps of half the time"
    assert any(note.startswith("this machine: fp32's step time differs by 0.0 %") for note in table.notes)
