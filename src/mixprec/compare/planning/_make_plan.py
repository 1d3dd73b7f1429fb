"""Making a plan: train a little, measure, search, and write the reasons down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from mixprec.planner import KEEP, Choice, Effort, Inventory, estimate_time, measure_scores, pareto, search, seconds_of
from mixprec.planner.plan import Asked, Plan, Spent, plan_of_choice
from mixprec.specs import ACTIVATION_PRODUCTS

from .._machine import machine_facts, package_versions
from ._all_kept import why_all_kept
from ._limits import Rest, limits_of
from ._measure import Basis, Scorer, Timing, measure
from ._request import PlanRequest
from ._start import Start, start_after, start_from


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan, and what it was made from.

    Attributes:
        plan: not yet proved.
        start: of the workload, at which it was measured.
        basis: that it was chosen from.
        limits: that it keeps.
        rest: of a step.
    """

    plan: Plan
    start: Start
    basis: Basis
    limits: dict[str, float]
    rest: Rest


def plan_workload(request: PlanRequest) -> Planned:
    """Choose a format for every layer of a workload, by its scores and the roofline of the hardware.

    Raises:
        WorkloadError: a workload that cannot be planned for.
        ValueError: targets that cannot be kept, told with what is possible.
    """
    hardware, kept = request.hardware, replace(request.base, rules=(), phases=())

    effort = Effort(activations=False, gradients=False, most_steps=request.most_steps)

    def timing(inventory: Inventory) -> Timing:
        dtype = request.base.compute_dtype
        return lambda group, candidate: seconds_of(group, candidate, hardware, inventory, compute_dtype=dtype)

    return make_plan(
        request,
        lambda model, loss, batches, candidates: measure_scores(
            model, loss, batches, candidates, effort=effort, seed=request.seed
        ),
        timing,
        lambda inventory: estimate_time(inventory, kept, hardware).seconds,
    )


def make_plan(
    request: PlanRequest,
    scorer: Scorer,
    timing: Callable[[Inventory], Timing],
    step_seconds: Callable[[Inventory], float],
) -> Planned:
    """Choose a format for every layer of a workload.

    Args:
        request: what for.
        scorer: measures candidates.
        timing: predicts the seconds of a group.
        step_seconds: predicts what a whole step takes with everything kept.

    Raises:
        WorkloadError: a workload that cannot be planned for.
        ValueError: targets that cannot be kept, told with what is possible.
    """
    start = _start(request)
    began = time.perf_counter()
    basis = measure(request, start, scorer, timing)
    kept = sum(option.seconds for option in basis.options if option.candidate == KEEP)
    rest = Rest(seconds=max(step_seconds(basis.inventory) - kept, 0.0), steps=start.workload.steps)
    limits = limits_of(request, basis, rest)
    choice = search(basis.options, minimise=request.minimise, limits=limits)
    note = (
        why_all_kept(choice, basis, request.candidates, timing, request.hardware.name) if _saves_time(request) else ""
    )
    spent = Spent(
        step_seconds=basis.scores.step_seconds,
        scores_seconds=basis.scores.seconds,
        other_seconds=max(time.perf_counter() - began - basis.scores.seconds, 0.0),
    )
    plan = plan_for(request, start, basis, choice, limits)
    evidence = replace(plan.evidence, spent=spent, notes=(*plan.evidence.notes, *([note] if note else [])))
    return Planned(plan=replace(plan, evidence=evidence), start=start, basis=basis, limits=limits, rest=rest)


def front_of(planned: Planned, request: PlanRequest) -> tuple[Choice, ...]:
    """The Pareto front of what is minimised against the loss, under the other limits."""
    others = {name: most for name, most in planned.limits.items() if name != "loss"}
    minimise = "seconds" if request.minimise == "loss" else request.minimise
    return pareto(planned.basis.options, minimise=minimise, limits=others)


def plan_for(request: PlanRequest, start: Start, basis: Basis, choice: Choice, limits: dict[str, float]) -> Plan:
    """Write a choice as a plan."""
    asked = Asked(
        name=request.name,
        workload=request.source.name,
        seed=request.seed,
        trained_steps=start.steps,
        hardware=request.hardware.name,
        validated=request.hardware.is_validated,
        minimise=request.minimise,
        limits=limits,
    )
    plan = plan_of_choice(asked, request.base, request.candidates, basis.layers, basis.scores, basis.options, choice)
    evidence = replace(
        plan.evidence,
        targets=dict(request.said_targets),
        machine=machine_facts(request.device),
        versions=package_versions(),
        notes=(*basis.inventory.notes, *basis.scores.notes, *_left_out(basis)),
    )
    return replace(plan, evidence=evidence)


def _saves_time(request: PlanRequest) -> bool:
    return request.minimise in ("seconds", "cost")


def _left_out(basis: Basis) -> list[str]:
    """Products of activations that nothing was measured of."""
    scored = {site for group in basis.scores.groups for site in group.sites}
    products = basis.inventory.products
    sites = {p.site for p in products if p.kind in ACTIVATION_PRODUCTS and p.site not in scored}
    if not sites:
        return []
    return [
        f"{len(sites)} products of activations with one another stay in the compute dtype and were not measured: fused "
        "attention runs them in one dtype"
    ]


def _start(request: PlanRequest) -> Start:
    if request.checkpoint is not None:
        return start_from(request.source, request.base, request.checkpoint, seed=request.seed, device=request.device)
    return start_after(request.source, request.base, steps=request.steps, seed=request.seed, device=request.device)
