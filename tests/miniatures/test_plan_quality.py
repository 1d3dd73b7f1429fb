"""A plan loses less than ranking by output error at equal average bits: the small form of the study in docs/plan.md."""

from __future__ import annotations

import pytest

from benchmarks._plan_study import changes, measure, source_of

STUDY = "first and last blocks wide, else MXFP4"


@pytest.mark.slow
def test_a_plan_loses_half_of_what_output_error_does_at_equal_bits():
    source = source_of("gpt", layers=3, steps=100)
    found = [changes(measure(source, 100, seed), STUDY) for seed in range(2)]
    total = {way: sum(seed[way]["change"] for seed in found) for way in found[0]}
    assert total["plan"] <= total["output error"] / 2
    assert all(seed[way]["bits"] <= seed["blocks"]["bits"] * (1 + 1e-6) for seed in found for way in seed)
