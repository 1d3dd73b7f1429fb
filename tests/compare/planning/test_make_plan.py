"""Plans of a small workload: chosen within the budget, by what was measured; and what is told where none can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from mixprec.compare import WorkloadError
from mixprec.compare.planning import Planned, PlanRequest, front_of, make_plan
from mixprec.hardware import Figure, Hardware
from mixprec.planner import KEEP, Candidate, CostTarget, LatencyTarget, MemoryTarget, QualityTarget, Targets
from mixprec.specs import LayerPrecision, recipe
from mixprec.training.checkpoint import find_checkpoints

from ._small import CANDIDATES, scorer, source

RATES = {name: Figure(1e12, "made up for a test") for name in ("fp32", "bf16", "fp8", "fp4")}
HARDWARE = Hardware(name="made-up", title="Made up", kind="gpu", rates=RATES, block_formats=("mxfp8",))
TIMES = {KEEP: 4e-3, "fp8": 2e-3, "fp4": 1e-3}


def request_for(**changes) -> PlanRequest:
    settings = {
        "source": source(),
        "hardware": HARDWARE,
        "candidates": CANDIDATES,
        "base": recipe("fp32"),
        "loss_budget": 1e-3,
        "steps": 20,
    }
    return PlanRequest(**(settings | changes))


def made(request: PlanRequest, score: Callable = scorer) -> Planned:
    return make_plan(
        request, score, lambda inventory: lambda group, c: TIMES.get(c.name, 3e-3), lambda inventory: 13e-3
    )


def test_the_plan_is_within_its_budget_and_as_fast_as_that_allows():
    planned = made(request_for())
    evidence = planned.plan.evidence
    assert 0 <= evidence.predicted.loss <= 1e-3
    assert evidence.predicted.seconds == pytest.approx(sum(TIMES[g.candidate] for g in evidence.groups))
    assert evidence.predicted.seconds < evidence.predicted.keep_seconds
    assert evidence.trained_steps == 20
    assert (evidence.workload, evidence.base, evidence.hardware) == ("small", "fp32", "made-up")


def test_a_larger_budget_is_never_slower_and_the_same_again_is_the_same():
    plans = [made(request_for(loss_budget=budget)).plan for budget in (0.0, 1e-4, 1e-2, 1.0, 1.0)]
    times = [plan.evidence.predicted.seconds for plan in plans]
    assert times == sorted(times, reverse=True)
    assert plans[-1].recipe == plans[-2].recipe
    assert times[-1] == pytest.approx(3e-3)  # all fp4


def test_saved_bytes_are_those_of_a_traced_step_under_each_candidate():
    options = {(o.group, o.candidate): o.bytes for o in made(request_for()).basis.options}
    assert options["first", KEEP] == 64 * 8 * 4  # the batch in fp32
    assert options["first", "fp8"] == 64 * 8 + 4  # codes of a byte, and a scale


def test_layers_may_be_kept_by_globs_and_targets():
    targets = Targets(quality={"loss": QualityTarget(absolute=1.0)})
    planned = made(request_for(loss_budget=None, targets=targets, keep=("head",)))
    by_group = {group.name: group for group in planned.plan.evidence.groups}
    assert by_group["head"].candidate == KEEP
    assert by_group["first"].candidate == "fp4"
    assert "'head': keep alone" in by_group["head"].options[1].barred


def test_a_device_without_a_format_gets_none_of_it():
    only = {name: figure for name, figure in RATES.items() if name != "fp4"}
    planned = made(request_for(hardware=replace(HARDWARE, rates=only), loss_budget=1.0))
    assert {group.candidate for group in planned.plan.evidence.groups} == {"fp8"}
    assert planned.plan.evidence.groups[0].options[2].barred == "made-up does not multiply e2m1"


def test_blocks_that_do_not_fit_are_left_out():
    blocks = Candidate(name="mxfp8", precision=LayerPrecision.uniform("mxfp8"))
    planned = made(request_for(candidates=(blocks,), loss_budget=10.0))
    assert {g.name: g.candidate for g in planned.plan.evidence.groups} == {
        "first": KEEP,
        "second": "mxfp8",
        "head": KEEP,
    }


def test_targets_of_latency_memory_and_cost_come_down_to_limits():
    targets = Targets(
        latency=LatencyTarget(ratio=0.6, milliseconds=9.0), memory=MemoryTarget(share=0.9), cost=CostTarget(largest=1.0)
    )
    hardware = replace(HARDWARE, price_per_hour=3600.0)
    planned = made(request_for(hardware=hardware, targets=targets, loss_budget=None, minimise="loss"))
    kept_peak, kept_bytes = planned.basis.kept.peak, sum(o.bytes for o in planned.basis.options if o.candidate == KEEP)
    assert planned.limits["seconds"] == pytest.approx(0.6 * 13e-3 - 1e-3)  # 12 ms of products and 1 ms beside
    assert planned.limits["bytes"] == pytest.approx(kept_bytes - 0.1 * kept_peak)
    assert planned.limits["cost"] == pytest.approx(1.0 / 40 - 1e-3)
    assert planned.plan.evidence.predicted.seconds <= planned.limits["seconds"]


def test_the_front_goes_from_the_fastest_to_no_loss():
    request = request_for()
    front = front_of(made(request), request)
    assert front[0].seconds == pytest.approx(3e-3)
    assert front[-1].loss == 0
    assert all(a.seconds < b.seconds and a.loss > b.loss for a, b in itertools.pairwise(front))


def test_weights_may_come_from_a_checkpoint(tmp_path):
    from mixprec import prepare

    workload = source().build(0, "cpu")
    session = prepare(workload.model, workload.optimizer(workload.model.parameters()), "fp32", run=tmp_path / "run")
    for step in range(5):
        session.step(workload.loss(session.model, workload.batches(step)))
    session.save()
    checkpoint = find_checkpoints(tmp_path / "run" / "checkpoints")[0].path
    planned = made(request_for(checkpoint=checkpoint))
    assert planned.plan.evidence.trained_steps == 5
    start = planned.start.workload
    assert torch.equal(start.model.state_dict()["head.weight"], session.model.state_dict()["head.weight"])
    assert torch.equal(start.batches(0)[0], workload.batches(5)[0])


def test_an_impossible_budget_says_what_is_possible():
    with pytest.raises(ValueError, match=r"no choice has seconds at most .*: the least possible is 0\.003"):
        made(request_for(targets=Targets(latency=LatencyTarget(milliseconds=2.0))))
    with pytest.raises(ValueError, match="target of seconds is impossible: 1 ms of a step are not for the choice"):
        made(request_for(targets=Targets(latency=LatencyTarget(milliseconds=0.5))))


def test_a_plan_needs_something_to_decide_by():
    with pytest.raises(ValueError, match="needs a budget of something else"):
        made(request_for(loss_budget=None))
    with pytest.raises(ValueError, match="has no price"):
        made(request_for(targets=Targets(cost=CostTarget(largest=1.0))))
    with pytest.raises(ValueError, match="no candidates"):
        request_for(candidates=())
    with pytest.raises(ValueError, match="loss budget is nan"):
        request_for(loss_budget=math.nan)


def test_a_loss_that_is_not_finite_at_the_start_is_told():
    request = request_for(source=source(loss=lambda model, batch: model(batch[0]).mean() * math.inf), steps=0)
    with pytest.raises(WorkloadError, match=r"the loss is (nan|inf|-inf) after 0 steps"):
        made(request)


def test_a_baseline_that_diverges_is_told():
    request = request_for(
        source=source(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e6)),
    )
    with pytest.raises(WorkloadError, match="measuring needs a baseline that trains"):
        made(request)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_workload_without_a_product_is_told():
    request = request_for(
        source=source(
            model=Scale(),
            loss=lambda model, batch: model(batch[0]).square().mean(),
            evaluate=lambda model: {"loss": 1.0},
        ),
        steps=0,
    )
    with pytest.raises(ValueError, match="multiplies no matrices"):
        made(request)


def test_batches_of_varying_shape_are_measured_together():
    def batches(step: int):
        x = torch.randn(16 + 8 * (step % 3), 8, generator=torch.Generator().manual_seed(step))
        return x, torch.stack([x.sum(1)] * 4, 1)

    planned = made(request_for(source=source(batches=batches), batches=3))
    assert planned.plan.evidence.batches == 3
