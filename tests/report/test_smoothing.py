from __future__ import annotations

import math
import random

import pytest

from mixprec.report._smoothing import smooth, view


def test_a_straight_line_stays_itself_to_its_ends():
    line = {step: 3.0 - 0.25 * step for step in range(0, 400, 2)}
    for step, value in smooth(line, reach=13).items():
        assert value == pytest.approx(line[step], abs=1e-9)


def test_a_smoothed_value_is_the_least_squares_fit():
    noise = random.Random(0)
    series = {step: noise.gauss(0, 1) for step in range(50)}
    window = range(5, 26)
    mean = sum(series[i] for i in window) / 21
    assert smooth(series, reach=10)[15] == pytest.approx(mean)
    # At the start the window is one-sided, and the line is evaluated at its end.
    xs, ys = range(11), [series[i] for i in range(11)]
    slope = sum((x - 5) * y for x, y in zip(xs, ys, strict=True)) / sum((x - 5) ** 2 for x in xs)
    assert smooth(series, reach=10)[0] == pytest.approx(sum(ys) / 11 - 5 * slope)


@pytest.mark.parametrize("series", [{}, {3: 1.0}, {0: math.nan}, {0: 1.0, 1: math.inf}])
def test_short_and_broken_series(series: dict[int, float]):
    assert smooth(series, reach=5) == {step: value for step, value in series.items() if math.isfinite(value)}


def test_a_curve_that_explodes_does_not_flatten_the_others():
    low, high = view([1.0, 2.0, 3.0, 1e30], around=[1.0, 3.0]) or (0.0, 0.0)
    assert low < 1.0
    assert 3.0 < high < 6.0


def test_an_axis_of_nothing_and_of_one_value():
    assert view([], []) is None
    assert view([math.nan], [math.nan]) is None
    low, high = view([2.0], [2.0]) or (0.0, 0.0)
    assert low < 2.0 < high
