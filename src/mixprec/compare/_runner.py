"""Running a comparison: every recipe under every seed, as a stream of records."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from torch import nn

from mixprec.records import EventRecord

from ._comparison import Comparison
from ._random_state import own_random_state
from ._trial import Record, Trial
from ._user_code import describe
from ._workload import Workload

#: Evaluations are made after these shares of the steps.
EVALUATE_AT = (0.25, 0.5, 0.75, 1.0)


def run(comparison: Comparison, *, finished: Iterable[tuple[str, int]] = ()) -> Generator[Record]:
    """Train, and yield what is measured as it is measured.

    All recipes of a seed start from the same weights and see the same batches. They take one step each in turn, in
    an order that rotates, so that a slow minute of the machine falls on all of them alike and time ratios hold.

    Args:
        comparison: what to run.
        finished: (recipe, seed) pairs to leave out.
    """
    done = set(finished)
    for seed in comparison.seeds:
        recipes = [recipe for recipe in comparison.recipes if (recipe.name, seed) not in done]
        if not recipes:
            continue
        workload = comparison.source.build(seed, comparison.device)
        groups = [[recipe] for recipe in recipes] if comparison.one_by_one else [recipes]
        for group in groups:
            trials = [Trial(workload, recipe, seed) for recipe in group]
            yield from _run_together(workload, trials, comparison.source.file)


def evaluation_steps(steps: int) -> set[int]:
    """After how many of a run's steps it is evaluated.

    Example:
        >>> sorted(evaluation_steps(200))
        [50, 100, 150, 200]
    """
    return {max(1, round(steps * share)) for share in EVALUATE_AT}


def _run_together(workload: Workload, trials: list[Trial], file: Path | None) -> Iterator[Record]:
    twin = copy.deepcopy(workload.model)
    evaluate_at = evaluation_steps(workload.steps)
    for step in range(workload.steps):
        first = step % len(trials)
        for trial in (*trials[first:], *trials[:first]):
            if not trial.ended:
                yield from _advance(trial, evaluate_at, twin, file)


def _advance(trial: Trial, evaluate_at: set[int], twin: nn.Module, file: Path | None) -> Iterator[Record]:
    """One step of one trial, and what is due after it. An exception ends this trial, not the others."""
    try:
        with own_random_state(trial.device):
            records = [*trial.advance()]
            if trial.step in evaluate_at and not trial.ended:
                records += trial.evaluate(twin)
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        yield EventRecord(
            recipe=trial.recipe, seed=trial.seed, step=trial.step, name="exception", site="", message=trace
        )
        yield trial.end("failed", f"at step {trial.step + 1}: {describe(error, file)}")
        return
    yield from records
    if trial.finished and not trial.ended:
        yield trial.end("done")
