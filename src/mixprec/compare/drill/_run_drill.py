"""The runs of a drill, one after another."""

from __future__ import annotations

from pathlib import Path

from mixprec.guard import Guard
from mixprec.nn import resolve
from mixprec.specs import Recipe

from .._comparison import check_device
from .._workload import Workload
from .._workload_checks import check_workload
from ._drilled import LEAST_STEPS, Drill, Drilled, FaultRun, HealthyRun, Rehearsed
from ._fault import Fault
from ._judge import judge_fault, judge_healthy, seed_noise
from ._no_fault import NoFault
from ._plan_faults import PlannedFaults, begins_at, plan_faults
from ._rehearse import Rehearsal, rehearse
from ._told import told_fault, told_healthy
from ._write import write_drilled


def run_drill(drill: Drill, out: str | Path) -> Drilled:
    """Plant faults into short runs of a workload, and see what the guard makes of them.

    For each seed there is a run without a fault, under guard; for each fault and seed one with the fault under guard,
    and one with the fault alone. All faults begin after two fifths of the steps. Operands are sampled, and under guard
    a shadow is measured, 20 times in a run. Random states are left as they were.

    Args:
        drill: what is to be done.
        out: a new folder: ``drill.json``, and a run folder for each run.

    Returns:
        What was found; also in ``drill.json``.

    Raises:
        ValueError: a workload that is too short, does not train, or cannot have a fault that was asked for; an unknown
            fault; a folder with something in it.
        OSError: the folder cannot be written.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already: a drill needs a new folder, give another --out")
    check_device(drill.device)
    workload = drill.source.build(drill.seeds[0], drill.device)
    _check_length(workload, drill.source.name)
    check_workload(workload, drill.source.name, drill.source.file)
    recipe = resolve(drill.recipe, workload.model)
    planned = plan_faults(drill, workload, recipe)
    for name, reason in planned.left_out.items():
        drill.says(f"fault {name} is left out: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    drilled = _Runs(drill, workload, recipe, planned, folder).all()
    write_drilled(folder, drilled)
    return drilled


def _check_length(workload: Workload, name: str) -> None:
    if workload.steps < LEAST_STEPS:
        raise ValueError(
            f"{name} takes {workload.steps} steps, a drill needs {LEAST_STEPS}: faults begin after two fifths "
            f"(step {begins_at(LEAST_STEPS)} of {LEAST_STEPS}), when the guard knows what is usual, last up to as long "
            "again, and the rest is for the way back; give more --steps"
        )


class _Runs:
    def __init__(self, drill: Drill, workload: Workload, recipe: Recipe, planned: PlannedFaults, out: Path) -> None:
        self._drill, self._workload, self._recipe = drill, workload, recipe
        self._planned, self._out = planned, out
        self._total, self._made = len(drill.seeds) * (1 + 2 * len(planned.planted)), 0

    def all(self) -> Drilled:
        """Those without a fault first: they tell the noise."""
        healthy = {seed: self._healthy(seed) for seed in self._drill.seeds}
        noise = seed_noise([run.loss for run in healthy.values()])
        names, seeds = self._planned.planted, self._drill.seeds
        runs = [self._fault(name, seed, healthy[seed], noise) for name in names for seed in seeds]
        return Drilled(
            workload=self._drill.source.name,
            recipe=self._recipe.name,
            steps=self._workload.steps,
            noise=noise,
            healthy=tuple(healthy.values()),
            runs=tuple(runs),
            sites=self._planned.sites,
            left_out=self._planned.left_out,
        )

    def _healthy(self, seed: int) -> HealthyRun:
        run = self._rehearse(seed, self._drill.guard, NoFault(), f"seed-{seed}/no-fault")
        if run.ended and not run.incidents:
            raise ValueError(
                f"{self._drill.source.name} under recipe {self._recipe.name} and seed {seed} does not train even "
                f"without a fault ({run.ended}): a drill needs a workload that does"
            )
        healthy = judge_healthy(seed, run)
        self._says(f"no fault, seed {seed}: {told_healthy(healthy)}")
        return healthy

    def _fault(self, name: str, seed: int, healthy: HealthyRun, noise: float) -> FaultRun:
        made = self._planned.planted[name]  # a fault for each run: some remember what they did
        alone = self._rehearse(seed, None, made(seed), f"seed-{seed}/{name}-alone")
        self._says(f"{name}, seed {seed}, without guard: {alone.ended or f'loss {alone.loss:.4f}'}")
        guarded = self._rehearse(seed, self._drill.guard, made(seed), f"seed-{seed}/{name}")
        judged = judge_fault(made(seed), seed, guarded=guarded, alone=alone, healthy=healthy, noise=noise)
        self._says(f"{name}, seed {seed}, under guard: {told_fault(judged)}")
        return judged

    def _rehearse(self, seed: int, guard: Guard | None, fault: Fault, folder: str) -> Rehearsed:
        rehearsed = rehearse(
            Rehearsal(
                source=self._drill.source,
                recipe=self._recipe,
                seed=seed,
                device=self._drill.device,
                guard=guard,
                fault=fault,
                out=self._out,
                folder=folder,
            )
        )
        self._made += 1
        return rehearsed

    def _says(self, sentence: str) -> None:
        self._drill.says(f"{self._made} of {self._total} runs: {sentence}")
