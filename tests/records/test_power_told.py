from __future__ import annotations

from mixprec.compare import plan_pairs
from mixprec.records import Gap, power_told

PAIRS = {0: 0.001, 1: -0.002, 2: 0.0015}


def test_pairs_that_were_fixed_and_those_of_a_plan_are_told_apart():
    fixed, planned = Gap(per_seed=PAIRS), Gap(per_seed=PAIRS, plan=plan_pairs(8))
    assert power_told(fixed, 0.001).endswith(f"; {fixed.pairs_needed(0.001)} pairs would be needed for 0.001")
    assert power_told(planned, 0.001).endswith(
        f"; a new plan of {planned.pairs_needed(0.001)} pairs would be needed for 0.001"
    )


def test_what_can_be_resolved_already_needs_no_more():
    gap = Gap(per_seed=PAIRS)
    resolvable = gap.resolvable()
    assert resolvable is not None
    assert power_told(gap, 2 * resolvable) == power_told(gap, None)
    assert "needed" not in power_told(gap, None)
