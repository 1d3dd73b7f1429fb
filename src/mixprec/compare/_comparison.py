"""What is compared: a workload, recipes and seeds; and the checks that need no training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixprec.records import ComparisonRecord, PairPlan, TargetRow
from mixprec.specs import Recipe

from ._compared import checked_baseline, first_seeds
from ._loading import WorkloadSource
from ._machine import machine_facts, package_versions
from ._metric_goal import directions, with_goals
from ._random_state import own_random_state
from ._trial import Trial
from ._workload_checks import check_workload


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison to be run.

    Attributes:
        source: gives the workload of a seed.
        recipes: what to train under, with distinct names, in the order in which they are shown.
        seeds: each gives its own initial weights and data order, shared by all recipes.
        baseline: name of the recipe that gaps and time ratios are taken to; the first by default.
        device: where to train, e.g. ``"cpu"`` or ``"cuda:0"``.
        one_by_one: train the recipes of a seed one after another, instead of one step of each in turn. Needs the
            memory of one model instead of all; but a slow minute of the machine then falls on one recipe.
        plan: add seeds, in their order, until each recipe's gaps are resolved; there are as many as its budget.
            ``None`` runs them all.
        targets: what each recipe is judged by, beside the workload's own goals.

    Raises:
        ValueError: without recipes or seeds, for repeated ones, for a baseline that is not compared, or for a plan of
            another number of seeds.
    """

    source: WorkloadSource
    recipes: tuple[Recipe, ...]
    seeds: tuple[int, ...]
    baseline: str = ""
    device: str = "cpu"
    one_by_one: bool = False
    plan: PairPlan | None = None
    targets: tuple[TargetRow, ...] = ()

    def __post_init__(self) -> None:
        baseline = checked_baseline(self.names, self.seeds, self.baseline, self.plan)
        object.__setattr__(self, "baseline", baseline)

    @property
    def names(self) -> tuple[str, ...]:
        """The recipes' names."""
        return tuple(recipe.name for recipe in self.recipes)


def check(comparison: Comparison) -> ComparisonRecord:
    """Try everything once on a throw-away model, so that mistakes show before anything is trained or written.

    Returns:
        What the records begin with.

    Raises:
        ValueError: for a workload or a recipe that does not work; the message names what to mend.
    """
    check_device(comparison.device)
    with own_random_state(comparison.device):
        seed = comparison.seeds[0]
        workload = comparison.source.build(seed, comparison.device)
        check_workload(workload, comparison.source.name, comparison.source.file)
        for recipe in comparison.recipes:
            Trial(workload, recipe, seed)
    plan, targets = comparison.plan, with_goals(comparison.targets, workload.metrics)
    return ComparisonRecord(
        workload=comparison.source.name,
        recipes=comparison.names,
        baseline=comparison.baseline,
        seeds=first_seeds(comparison.seeds, plan),
        steps=workload.steps,
        machine=machine_facts(comparison.device),
        versions=package_versions(),
        data=dict(workload.data),
        max_pairs=None if plan is None else plan.max_pairs,
        critical=() if plan is None else plan.critical,
        better=directions(targets, workload.metrics),
        targets=targets,
    )


def check_device(name: str) -> None:
    """Refuse a device that cannot be used here.

    Raises:
        ValueError: it cannot; the message says why.
    """
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason[:200]}; use --device cpu") from error
