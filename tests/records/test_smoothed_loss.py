"""The loss as training ends, and the time to it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from mixprec.records import SMOOTHED_LOSS, StepRecord, summarize
from mixprec.records._smoothed_loss import final_losses, smoothed, time_to_quality


def run(loss: Callable[[int], float | None], steps: int = 100, every: int = 1, recipe: str = "low", seed: int = 0):
    return {
        i: StepRecord(
            recipe=recipe, seed=seed, step=i, loss=loss(i), seconds=0.1, applied=True, grad_norm=None, loss_scale=None,
            tokens=None,
        )
        for i in range(every - 1, steps, every)
    }  # fmt: skip


def test_the_smoothed_loss_is_the_mean_of_the_last_tenth():
    assert final_losses({0: run(float), 1: run(float, steps=99)}, 100) == {0: pytest.approx(94.5)}, "one did not end"


def test_steps_whose_loss_is_not_finite_spoil_their_stretches_only():
    found = smoothed(run(lambda i: math.nan if i == 3 else 1.0, steps=8), 2)
    assert [taken for taken, loss in found.items() if math.isinf(loss)] == [4, 5]
    assert {loss for loss in found.values() if math.isfinite(loss)} == {1.0}
    assert set(smoothed(run(lambda i: None, steps=4), 2).values()) == {math.inf}


@pytest.mark.parametrize("every", [1, 5])
def test_steps_until_the_baselines_final_loss(every: int):
    baseline = {seed: run(lambda i: 100.0 - i, every=every) for seed in (0, 1, 2)}
    recipe = {
        0: run(lambda i: 100.0 - 2 * i, every=every),  # at half the steps, and half a stretch
        1: run(lambda i: 100.0 - i, every=every),
        2: run(lambda i: 101.0 - i, every=every),  # never as low
    }
    found = time_to_quality(recipe, baseline, 100)
    assert found is not None
    assert found.per_seed == {0: pytest.approx(0.55, abs=0.03), 1: 1.0, 2: math.inf}
    assert (found.reached, found.steps_ratio, found.speed_up(0.5)) == (2, 1.0, 2.0)


def test_what_is_reached_by_half_of_the_seeds_has_no_time():
    baseline = {seed: run(lambda i: 100.0 - i) for seed in (0, 1)}
    found = time_to_quality({0: run(lambda i: 100.0 - i), 1: run(lambda i: 101.0 - i)}, baseline, 100)
    assert found is not None
    assert (found.reached, found.steps_ratio, found.speed_up(0.5)) == (1, None, None)


def test_a_summary_pairs_it_as_any_metric():
    records = [
        record
        for recipe, above in (("fp32", 0.0), ("low", 0.5))
        for seed in (0, 1, 2)
        for record in run(lambda i, a=above, s=seed: 2.0 + s + a, recipe=recipe, seed=seed).values()  # type: ignore[misc]
    ]
    row = summarize(records).rows[1]
    assert row.smoothed_loss is not None
    assert row.smoothed_loss.gap.mean == pytest.approx(0.5)
    assert list(row.quality) == [SMOOTHED_LOSS]
