"""The proof: what was predicted beside what is measured, the policy frozen, and a verdict for each target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.compare.planning import ProofSettings, exit_status, loss_under, prove, quality_verdict
from mixprec.planner import CostTarget, LatencyTarget, MemoryTarget, QualityTarget, Targets
from mixprec.planner.plan import Plan
from mixprec.records import Gap
from mixprec.specs import Recipe, Rule

from ._small import CANDIDATES
from .test_make_plan import made, request_for

SETTINGS = ProofSettings(checks=2, steps=8, pairs=2)


@pytest.fixture(scope="module")
def planned():
    return made(request_for(loss_budget=1.0))


def proved(planned, targets: Targets, settings: ProofSettings = SETTINGS) -> Plan:
    base, layers = request_for().base, planned.basis.layers
    return prove(planned.plan, planned.start, base, CANDIDATES, layers, targets=targets, settings=settings)


def test_the_recipe_is_frozen_and_the_evidence_grows(planned):
    done = proved(planned, Targets())
    measured = done.evidence.measured
    assert done.recipe == planned.plan.recipe
    assert measured is not None
    assert (measured.pairs, measured.steps, len(measured.checks)) == (2, 8, 2)
    assert measured.gap_low <= measured.gap <= measured.gap_high
    assert measured.step_ratio > 0
    assert measured.memory_ratio > 0
    assert measured.verdicts == {}
    assert Plan.from_toml(done.to_toml()) == done


def test_checks_are_of_the_largest_predicted_losses_and_change_the_held_out_loss_alone(planned):
    measured = proved(planned, Targets(), ProofSettings(checks=2, pairs=0)).evidence.measured
    losses = sorted((group.chosen.loss for group in planned.plan.evidence.groups), reverse=True)
    assert [check.predicted for check in measured.checks] == losses[:2]
    first = measured.checks[0]
    alone = Recipe(name="alone", rules=(Rule(match=first.group, precision=CANDIDATES[1].precision),))
    workload = planned.start.workload
    assert first.measured == pytest.approx(
        loss_under(workload, alone, 0) - loss_under(workload, Recipe(name="plain"), 0), abs=1e-7
    )
    assert measured.gap is None


def test_every_target_has_a_verdict(planned):
    targets = Targets(
        quality={"loss": QualityTarget(absolute=100.0), "accuracy": QualityTarget(absolute=1.0, better="higher")},
        latency=LatencyTarget(ratio=0.9),
        memory=MemoryTarget(bytes=1, share=50.0),
        cost=CostTarget(largest=10.0),
    )
    assert dict(proved(planned, targets).evidence.measured.verdicts) == {
        "quality.loss": "met",
        "quality.accuracy": "not resolved",  # the workload has no such metric
        "memory.bytes": "missed",
        "memory.share": "met",
        "latency.ratio": "not resolved",  # a prediction for a machine that nothing was measured on
        "cost.largest": "not resolved",
    }


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(0, 1))
def test_a_verdict_of_quality_needs_the_whole_interval(values, most):
    gap = Gap(per_seed=dict(enumerate(values)))
    low, high = gap.interval
    expected = "met" if high <= most else "missed" if low > most else "not resolved"
    assert quality_verdict(QualityTarget(absolute=most), gap, 1.0) == expected
    turned = Gap(per_seed={seed: -value for seed, value in gap.per_seed.items()})
    assert quality_verdict(QualityTarget(absolute=most, better="higher"), turned, 1.0) == expected


def test_one_pair_resolves_nothing_and_a_diverged_run_misses():
    target = QualityTarget(relative=0.5)
    assert quality_verdict(target, Gap(per_seed={0: 0.0}), 1.0) == "not resolved"
    assert quality_verdict(target, Gap(per_seed={0: 0.0, 1: float("nan")}), 1.0) == "missed"


def test_the_exit_status_is_of_the_worst_verdict():
    assert exit_status({}) == exit_status({"a": "met"}) == 0
    assert exit_status({"a": "met", "b": "not resolved"}) == 3
    assert exit_status({"a": "missed", "b": "not resolved"}) == 1


def test_refuses_a_proof_of_no_steps():
    with pytest.raises(ValueError, match="at least 1 step where there are pairs"):
        ProofSettings(steps=0)


def test_a_plan_that_keeps_everything_is_the_base_recipe_and_is_not_proved():
    planned = made(request_for(keep=("*",), loss_budget=1.0))
    quality = {"loss": QualityTarget(absolute=0.0)}
    done = proved(planned, Targets(quality=quality, memory=MemoryTarget(share=0.9))).evidence
    assert done.measured is not None
    assert (done.measured.pairs, done.measured.loss_change, done.measured.checks) == (0, None, ())
    assert done.measured.verdicts == {"quality.loss": "met", "memory.share": "missed"}
    assert done.notes[-1] == "every layer is kept: the plan is the base recipe, and there was nothing to prove"
    assert done.spent is None or done.spent.proof_seconds is None


def test_bytes_of_memory_are_measured_though_everything_is_kept():
    planned = made(request_for(keep=("*",), loss_budget=1.0))
    done = proved(planned, Targets(memory=MemoryTarget(bytes=100_000_000)), ProofSettings(checks=0, steps=4, pairs=1))
    assert done.evidence.measured.verdicts == {"memory.bytes": "met"}
    assert done.evidence.measured.pairs == 1
