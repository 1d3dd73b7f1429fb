"""What a number of pairs can tell."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from mixprec.records import Gap, PairPlan, looks, spent
from mixprec.records._bootstrap import bootstrap_interval

GAPS = {0: 0.010, 1: 0.014, 2: 0.011, 3: 0.007, 4: 0.013}
PLAN = PairPlan(max_pairs=6, critical=(12.0, 6.0, 5.0, 3.4))


def test_the_interval_of_seeds_that_were_chosen_beforehand_is_students():
    expected = stats.t.interval(0.95, 4, loc=0.011, scale=stats.sem(list(GAPS.values())))
    assert Gap(per_seed=GAPS).interval == pytest.approx(expected)


def test_a_plan_has_the_interval_of_its_look():
    gap = Gap(per_seed=GAPS, plan=PLAN)
    error = float(stats.sem(list(GAPS.values())))
    assert gap.interval == pytest.approx((0.011 - 5.0 * error, 0.011 + 5.0 * error))
    assert (gap.confidence, gap.resolved) == (0.975, True)
    assert Gap(per_seed={0: 0.01, 1: 0.02}, plan=PLAN).interval is None, "no look yet"


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_smallest_gap_that_can_be_resolved(power: float):
    gap = Gap(per_seed=GAPS)
    smallest = gap.resolvable(power)
    assert smallest is not None
    assert gap.sd is not None
    critical, effect = stats.t.isf(0.025, 4), smallest / gap.sd * math.sqrt(5)
    assert stats.nct.sf(critical, 4, effect) + stats.nct.cdf(-critical, 4, effect) == pytest.approx(power, abs=1e-4)


@pytest.mark.parametrize("asked", [0.0005, 0.001, 0.003, 0.02])
def test_the_pairs_that_a_gap_needs(asked: float):
    gap = Gap(per_seed=GAPS)
    assert gap.sd is not None

    def power(pairs: int) -> float:
        critical, effect = stats.t.isf(0.025, pairs - 1), asked / gap.sd * math.sqrt(pairs)  # type: ignore[operator]
        return float(stats.nct.sf(critical, pairs - 1, effect) + stats.nct.cdf(-critical, pairs - 1, effect))

    assert gap.pairs_needed(asked) == next(pairs for pairs in range(2, 500) if power(pairs) >= 0.8)
    assert gap.pairs_needed(-asked) == gap.pairs_needed(asked)


def test_a_plan_needs_more_pairs_than_seeds_chosen_beforehand():
    fixed, planned = Gap(per_seed=GAPS).pairs_needed(0.003), Gap(per_seed=GAPS, plan=PLAN).pairs_needed(0.003)
    assert fixed is not None
    assert planned is not None
    assert fixed < planned < 2 * fixed


def test_what_cannot_be_told_is_not():
    for gap in (Gap(), Gap(per_seed={0: 0.1}), Gap(per_seed={0: 0.1, 1: math.inf})):
        assert (gap.interval, gap.bootstrap, gap.resolvable(), gap.pairs_needed(0.1)) == (None,) * 4
    same = Gap(per_seed={0: 0.0, 1: 0.0, 2: 0.0})
    assert (same.identical, same.resolved, same.resolvable(), same.pairs_needed(0.1)) == (True, False, 0.0, 2)


@pytest.mark.parametrize(("gap", "power"), [(0.0, 0.8), (math.nan, 0.8), (0.1, 0.0), (0.1, 1.0), (0.1, 0.04)])
def test_a_question_without_an_answer_is_refused(gap: float, power: float):
    with pytest.raises(ValueError, match=r"gap is|power is"):
        Gap(per_seed=GAPS).pairs_needed(gap, power)


@pytest.mark.parametrize(("pairs", "critical"), [(2, ()), (101, (1.0,) * 99), (5, (1.0,))])
def test_a_plan_that_is_none_is_refused(pairs: int, critical: tuple[float, ...]):
    with pytest.raises(ValueError, match="expected"):
        PairPlan(max_pairs=pairs, critical=critical)


@pytest.mark.parametrize("pairs", [3, 4, 5, 9, 12, 33, 100])
def test_looks_end_with_the_budget_and_spend_the_error_once(pairs: int):
    found = looks(pairs)
    assert found[0] == 3
    assert found[-1] == pairs
    assert list(found) == sorted(set(found))
    assert [spent(n, pairs) for n in found] == sorted(spent(n, pairs) for n in found)
    assert spent(pairs, pairs) == 1


@pytest.mark.parametrize("skewed", [False, True])
def test_the_bootstrap_covers_as_often_as_it_says_from_8_pairs_on(skewed: bool):
    draw = random.Random(7)
    one = (lambda: draw.expovariate(1.0)) if skewed else (lambda: draw.gauss(1.0, 0.3))
    found = [bootstrap_interval([one() for _ in range(10)]) for _ in range(150)]
    covered = sum(interval is not None and interval[0] <= 1.0 <= interval[1] for interval in found)
    assert 0.90 <= covered / 150 <= 0.99
