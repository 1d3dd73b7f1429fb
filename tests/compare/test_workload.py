from __future__ import annotations

import pytest

from tests.compare.fits import fit


def test_no_steps_are_refused():
    with pytest.raises(ValueError, match="at least 1 step, got steps=0"):
        fit(0, "cpu", steps=0)


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan")])
def test_clip_norm_must_be_positive(norm: float):
    with pytest.raises(ValueError, match="clip_norm must be positive"):
        fit(0, "cpu", clip_norm=norm)
