"""The proof of a plan: doubtful groups alone, then a short paired run on held-out data, with the policy frozen."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from mixprec.nn import convert
from mixprec.planner import KEEP, Candidate, Targets
from mixprec.planner.plan import GroupEvidence, Measured, Plan, SiteCheck
from mixprec.records import EvaluationRecord, Gap, MemoryRecord, RunEndRecord, StepRecord
from mixprec.specs import Layer, Recipe

from .._random_state import own_random_state
from .._trial import Record, Trial
from .._user_code import WorkloadError, calling
from .._workload import Workload
from ._measure import recipe_of
from ._start import Start, held_out_loss, shifted
from ._verdicts import Outcome, verdicts

#: Steps that no time ratio counts: they warm up.
_WARM_UP = 3
_NO_PROOF = "every layer is kept: the plan is the base recipe, and there was nothing to prove"


@dataclass(frozen=True, kw_only=True)
class ProofSettings:
    """How much is spent on a proof.

    Attributes:
        checks: groups that are quantized alone.
        steps: of a paired run.
        pairs: of runs, each on data of its own.
        seed: of stochastic roundings and the model's own draws.
        device: where.

    Raises:
        ValueError: nothing to do, or a negative number.
    """

    checks: int = 3
    steps: int = 50
    pairs: int = 3
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if min(self.checks, self.steps, self.pairs) < 0 or (self.pairs and not self.steps):
            raise ValueError(
                f"a proof got checks={self.checks}, steps={self.steps}, pairs={self.pairs}: expected numbers of at "
                "least 0, and at least 1 step where there are pairs"
            )


def prove(
    plan: Plan,
    start: Start,
    base: Recipe,
    candidates: Sequence[Candidate],
    layers: Mapping[str, Layer],
    *,
    targets: Targets,
    settings: ProofSettings | None = None,
) -> Plan:
    """Measure what a plan predicted. The plan's recipe is not changed by it.

    Args:
        plan: to be proved.
        start: the weights that it was made at.
        base: the recipe that it is compared with.
        candidates: that it chose from.
        layers: by site.
        targets: that verdicts are given for.
        settings: how much is spent.

    Returns:
        The plan with what was measured. One that keeps every layer is the base recipe, and not compared with it
        unless a target of memory's bytes asks for a measurement; a note says so.

    Raises:
        WorkloadError: a function of the workload that fails, or a baseline that diverges.
    """
    if is_base(plan) and targets.memory.bytes is None:
        return _as_base(plan, targets)
    settings = settings or ProofSettings()
    began = time.perf_counter()
    with own_random_state(settings.device), calling("the proof", start.file):
        kept = recipe_of(base, layers, (), Candidate(name=KEEP))
        reference = loss_under(start.workload, kept, settings.seed)
        checks = tuple(
            _check(group, start, base, candidates, layers, reference, settings.seed)
            for group in doubtful(plan, settings.checks)
        )
        change = loss_under(start.workload, plan.recipe, settings.seed) - reference
        outcome = _paired(plan, start, kept, settings) if settings.pairs else Outcome()
    gap = outcome.gaps.get("loss", Gap())
    low, high = gap.interval or (gap.mean, gap.mean)
    measured = Measured(
        checks=checks,
        loss_change=change,
        gap=gap.mean,
        gap_low=low,
        gap_high=high,
        pairs=gap.seeds,
        steps=settings.steps if settings.pairs else 0,
        step_ratio=outcome.step_ratio,
        memory_ratio=outcome.memory_ratio,
        verdicts=verdicts(targets, plan.evidence, outcome),
    )
    spent = plan.evidence.spent
    spent = None if spent is None else replace(spent, proof_seconds=time.perf_counter() - began)
    return replace(plan, evidence=replace(plan.evidence, measured=measured, spent=spent))


def is_base(plan: Plan) -> bool:
    """Whether nothing is cast: the plan is then what it would be compared with."""
    return all(group.candidate == KEEP for group in plan.evidence.groups)


def _as_base(plan: Plan, targets: Targets) -> Plan:
    """What is known without a proof: every gap to the base recipe is none, and so is every saving."""
    found = verdicts(targets, plan.evidence, Outcome(peak=1, baseline_peak=1))
    found |= dict.fromkeys((f"quality.{metric}" for metric in targets.quality), "met")
    notes = (*plan.evidence.notes, _NO_PROOF)
    return replace(plan, evidence=replace(plan.evidence, measured=Measured(verdicts=found), notes=notes))


def doubtful(plan: Plan, most: int) -> tuple[GroupEvidence, ...]:
    """The groups with the largest shares of the predicted loss, of those that are not kept."""
    cast = [group for group in plan.evidence.groups if group.candidate != KEEP]
    return tuple(sorted(cast, key=lambda group: -group.chosen.loss)[:most])


def loss_under(workload: Workload, recipe: Recipe, seed: int) -> float:
    """The held-out loss of a workload's weights in a recipe's forward pass."""
    model = copy.deepcopy(workload.model)
    convert(model, recipe, seed=seed)
    return held_out_loss(workload, model)


def _check(
    group: GroupEvidence,
    start: Start,
    base: Recipe,
    candidates: Sequence[Candidate],
    layers: Mapping[str, Layer],
    reference: float,
    seed: int,
) -> SiteCheck:
    candidate = next(c for c in candidates if c.name == group.candidate)
    alone = loss_under(start.workload, recipe_of(base, layers, group.sites, candidate), seed)
    return SiteCheck(
        group=group.name, candidate=candidate.name, predicted=group.chosen.loss, measured=alone - reference
    )


def _paired(plan: Plan, start: Start, kept: Recipe, settings: ProofSettings) -> Outcome:
    """Train both from the same weights on the same batches, in turn; each pair on batches of its own."""
    gaps: dict[str, dict[int, float]] = {}
    baseline: dict[str, list[float]] = {}
    times: list[float] = []
    peaks: dict[str, int] = {}
    recipes = (kept, replace(plan.recipe, name="plan"))
    for pair in range(settings.pairs):
        workload = replace(shifted(start.workload, pair * settings.steps), steps=settings.steps)
        ends: dict[str, dict[str, float]] = {}
        seconds: dict[str, list[float]] = {recipe.name: [] for recipe in recipes}
        for record in _train(workload, recipes, settings.seed + pair):
            if isinstance(record, StepRecord):
                seconds[record.recipe].append(record.seconds)
            elif isinstance(record, EvaluationRecord) and record.forward == "recipe":
                ends[record.recipe] = dict(record.metrics)
            elif isinstance(record, MemoryRecord):
                peaks[record.recipe] = max(peaks.get(record.recipe, 0), record.peak_bytes)
            elif isinstance(record, RunEndRecord) and record.recipe == kept.name:
                raise WorkloadError(f"the baseline of the proof ended: {record.reason}")
        for metric, value in ends[kept.name].items():
            gaps.setdefault(metric, {})[pair] = ends.get("plan", {}).get(metric, math.nan) - value
            baseline.setdefault(metric, []).append(value)
        if (mine := seconds["plan"][_WARM_UP:]) and (theirs := seconds[kept.name][_WARM_UP:]):
            times.append(median(mine) / median(theirs))
    return Outcome(
        gaps={metric: Gap(per_seed=values) for metric, values in gaps.items()},
        baseline={metric: sum(values) / len(values) for metric, values in baseline.items()},
        step_ratio=median(times) if times else None,
        peak=peaks.get("plan"),
        baseline_peak=peaks.get(kept.name),
    )


def _train(workload: Workload, recipes: Sequence[Recipe], seed: int) -> Iterator[Record]:
    trials = [Trial(workload, recipe, seed) for recipe in recipes]
    twin = copy.deepcopy(workload.model)
    for step in range(workload.steps):
        first = step % len(trials)
        for trial in (*trials[first:], *trials[:first]):
            if not trial.ended:
                yield from trial.advance()
    for trial in trials:
        if not trial.ended:
            yield from trial.evaluate(twin)
