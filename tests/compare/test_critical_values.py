"""The intervals of a plan of pairs, against simulated differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mixprec.compare import plan_pairs
from mixprec.records import looks, spent

ERROR = 0.025


@pytest.mark.parametrize("max_pairs", [3, 5, 12, 20])
def test_all_looks_together_err_as_often_as_they_may(max_pairs: int):
    plan, runs = plan_pairs(max_pairs), 200_000
    drawn = np.random.default_rng(5).standard_normal((runs, max_pairs)) * 0.004
    left_out = np.zeros(runs, dtype=bool)
    for pairs in looks(max_pairs):
        seen = drawn[:, :pairs]
        t = seen.mean(1) / seen.std(1, ddof=1) * np.sqrt(pairs)
        left_out |= np.abs(t) > plan.critical[pairs - 3]
        # Three standard errors of the simulation.
        expected = ERROR * spent(pairs, max_pairs)
        assert left_out.mean() == pytest.approx(expected, abs=3 * np.sqrt(expected / runs) + 0.01 * expected)


def test_one_look_alone_is_students():
    assert plan_pairs(3).critical[0] == pytest.approx(stats.t.isf(ERROR / 2, 2), rel=1e-6)


def test_a_number_of_pairs_that_is_no_look_has_the_interval_of_the_next_one():
    plan, runs = plan_pairs(12), 200_000
    drawn = np.random.default_rng(6).standard_normal((runs, 11))
    left_out = np.zeros(runs, dtype=bool)
    for pairs in (3, 4, 6, 8, 11):  # the last pair failed
        seen = drawn[:, :pairs]
        t = seen.mean(1) / seen.std(1, ddof=1) * np.sqrt(pairs)
        left_out |= np.abs(t) > plan.critical[pairs - 3]
    assert left_out.mean() == pytest.approx(ERROR * spent(11, 12), abs=0.0012)


@pytest.mark.parametrize("max_pairs", [2, 101])
def test_another_budget_is_refused(max_pairs: int):
    with pytest.raises(ValueError, match=f"max_pairs is {max_pairs}, expected 3 to 100"):
        plan_pairs(max_pairs)
