"""Student's t against scipy's."""

from __future__ import annotations

import pytest
from scipy import stats

from mixprec.records._student import chance_beyond, outside, two_sided


@pytest.mark.parametrize("df", [1, 2, 3, 4, 11, 30, 99])
@pytest.mark.parametrize("t", [0.0, 0.5, 2.0, 8.0])
def test_the_distribution(t: float, df: int):
    assert outside(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("df", [1, 2, 3, 11, 99, 200, 201, 5000])
@pytest.mark.parametrize("level", [0.05, 0.025, 0.001])
def test_quantiles(level: float, df: int):
    assert two_sided(level, df) == pytest.approx(stats.t.isf(level / 2, df), rel=1e-5)


@pytest.mark.parametrize("df", [1, 2, 3, 11, 60, 400])
@pytest.mark.parametrize("effect", [0.0, 0.7, 3.0, 12.0])
def test_power(effect: float, df: int):
    critical = stats.t.isf(0.025, df)
    expected = stats.nct.sf(critical, df, effect)
    if effect < 10:  # scipy's lower tail, of nothing, is NaN beyond
        expected += stats.nct.cdf(-critical, df, effect)
    assert chance_beyond(effect, df, critical) == pytest.approx(expected, abs=1e-5)
