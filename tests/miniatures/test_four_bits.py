"""In four bits the NVFP4 recipe loses less than plain MXFP4, in every pair of runs of one seed."""

from __future__ import annotations

import pytest

from mixprec.specs import LayerPrecision, recipe

from .training import SEEDS, gap, linear_recipe

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("four bits")]


@pytest.mark.parametrize("seed", SEEDS)
def test_mxfp4_loses_more_than_the_nvfp4_recipe(seed: int) -> None:
    mxfp4 = gap(linear_recipe("mxfp4", LayerPrecision.uniform("mxfp4")), seed)
    nvfp4 = gap(recipe("nvfp4", engine="emulated"), seed)
    print(f"seed {seed}: mxfp4 {mxfp4:+.4f}, nvfp4 {nvfp4:+.4f}")
    assert mxfp4 > nvfp4
