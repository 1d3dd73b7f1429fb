"""The front against every choice that nothing beats."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from mixprec.planner import KEEP, Option, pareto, search

from ._instances import every_choice, instances


@settings(max_examples=40, deadline=None)
@given(instances())
def test_the_whole_front_is_every_choice_that_none_beats(options):
    front = [(point.seconds, point.loss) for point in pareto(options, points=None)]
    sums = {(round(s["seconds"], 6), round(s["loss"], 6)) for s in every_choice(options, {})}
    best = [a for a in sums if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in sums)]
    assert [(round(s, 6), round(loss, 6)) for s, loss in front] == sorted(best)


def test_few_points_keep_both_ends_and_stay_in_order():
    options = [
        Option(group=f"g{g}", candidate=name, loss=loss * (g + 1), seconds=seconds, bytes=1)
        for g in range(20)
        for name, loss, seconds in ((KEEP, 0, 4), ("a", 1e-3, 2), ("b", 1e-2, 1))
    ]
    whole, few = pareto(options, points=None), pareto(options, points=6)
    assert len(few) <= 6 < len(whole)
    assert (few[0], few[-1]) == (whole[0], whole[-1])
    assert all(a.seconds < b.seconds and a.loss > b.loss for a, b in itertools.pairwise(few))


def test_limits_hold_at_every_point():
    options = [
        Option(group="a", candidate=KEEP, loss=0, seconds=4, bytes=8),
        Option(group="a", candidate="low", loss=2, seconds=1, bytes=2),
    ]
    assert [point.seconds for point in pareto(options, limits={"bytes": 4})] == [1]
    with pytest.raises(ValueError, match="the least possible is 2"):
        pareto(options, limits={"bytes": 1})


def test_refuses_a_front_of_one_quantity_or_one_point():
    options = [Option(group="a", candidate=KEEP, loss=0, seconds=4, bytes=8)]
    with pytest.raises(ValueError, match="'loss' twice"):
        pareto(options, minimise="loss")
    with pytest.raises(ValueError, match="points=1"):
        pareto(options, points=1)


def test_a_limit_a_hair_below_a_sum_gives_the_next_best():
    """HiGHS alone calls (12.3, 2.17) optimal, not (9, 2): another is beyond the limit by less than its tolerance."""
    table = {
        "a": ((4, 0), (1 / 3, 1 / 3), (0, 0.7916666666666666)),
        "b": ((5, 0), (0, 1.8333333333333333), (2 / 3, 1), (1 / 3, 1.5833333333333333)),
        "c": ((4, 0), (0, 2 / 3)),
    }
    options = [
        Option(group=group, candidate=KEEP if i == 0 else f"c{i}", loss=loss, seconds=seconds, bytes=3 if i == 0 else 0)
        for group, rows in table.items()
        for i, (seconds, loss) in enumerate(rows)
    ]
    for below in (1e-9, 1e-10, 1e-12):
        assert search(options, limits={"loss": 2.458333333333333 * (1 - below)}).loss == 2
