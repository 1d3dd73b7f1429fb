"""What a drill has found, on the terminal."""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._print import print_table

if TYPE_CHECKING:
    from mixprec.compare.drill import Drilled, FaultRun

_HEADER = ("fault", ">seen", "by", "done", ">recovered", ">loss", ">no guard", ">lost steps", ">lost s", ">worse")
_NONE = "–"


def print_drilled(drilled: Drilled, folder: Path) -> None:
    """A row for each fault, then what did not pass, run by run, and the verdict."""
    from mixprec.compare.drill import told_fault, told_healthy

    faults = list(dict.fromkeys(run.fault for run in drilled.runs))
    rows = [drill_row(fault, [run for run in drilled.runs if run.fault == fault]) for fault in faults]
    title = f"{drilled.workload} under {drilled.recipe}, {drilled.steps} steps, {len(drilled.healthy)} seeds"
    print_table(_HEADER, rows, title=title, turn=True)
    print(
        "seen: runs in which it was seen in time, steps until then (limit); loss: above that of the run without the "
        f"fault, with and without guard, mean over seeds; seed noise {drilled.noise:.4g}"
    )
    for fault, site in drilled.sites.items():
        print(f"{fault}: at {site}")
    for fault, reason in drilled.left_out.items():
        print(f"{fault}: left out, {reason}")
    for healthy in drilled.healthy:
        if healthy.triggers:
            print(f"no fault, seed {healthy.seed}: {told_healthy(healthy)}; {_of(folder, healthy.folder)}")
    for run in drilled.runs:
        if not run.passed:
            print(f"{run.fault}, seed {run.seed}: {told_fault(run)}; {_of(folder, run.folder)}")
    alarms = sum(len(healthy.triggers) for healthy in drilled.healthy)
    print(
        f"{sum(run.passed for run in drilled.runs)} of {len(drilled.runs)} runs with a fault passed, {alarms} false "
        f"alarms in {len(drilled.healthy)} runs without one: {'passed' if drilled.passed else 'not passed'}"
    )
    print(f"records: {shlex.quote(str(folder))}")


def drill_row(fault: str, runs: Sequence[FaultRun]) -> tuple[str, ...]:
    """The cells of one fault, over its seeds."""
    return (
        fault,
        _seen(runs),
        _often([run.trigger for run in runs if run.trigger]),
        _done(runs),
        f"{sum(run.recovered for run in runs)}/{len(runs)}",
        _above([run.loss - run.loss_without_fault for run in runs], "stopped"),
        _above([run.loss_without_guard - run.loss_without_fault for run in runs], "diverged"),
        f"{statistics.fmean(run.lost_steps for run in runs):.0f}",
        f"{statistics.fmean(run.lost_seconds for run in runs):.2f}",
        f"{sum(run.worse for run in runs)}/{len(runs)}",
    )


def _seen(runs: Sequence[FaultRun]) -> str:
    """In how many runs in time, and after how many steps in all that saw it."""
    seen = sorted(run.detected for run in runs if run.detected is not None)
    after = "unseen" if not seen else f"{seen[0]}" if seen[0] == seen[-1] else f"{seen[0]}–{seen[-1]}"
    limit = "" if runs[0].within is None else f" (limit {runs[0].within})"
    return f"{sum(run.in_time for run in runs)}/{len(runs)}: {after}{limit}"


def _done(runs: Sequence[FaultRun]) -> str:
    from mixprec.compare.drill import rungs_told

    return _often([rungs_told(run.rungs) for run in runs if run.rungs])


def _often(words: Sequence[str]) -> str:
    """What is there most often, and how many others there are."""
    counted = Counter(words).most_common()
    if not counted:
        return _NONE
    return counted[0][0] + (f" (+{len(counted) - 1})" if len(counted) > 1 else "")


def _above(differences: Sequence[float], otherwise: str) -> str:
    """The mean; where a run came to no end, that."""
    lost = sum(not math.isfinite(difference) for difference in differences)
    if lost:
        return f"{otherwise} {lost}/{len(differences)}"
    mean = statistics.fmean(differences)
    return f"{mean:+.4f}" if abs(mean) < 100 else f"{mean:+.3g}"


def _of(folder: Path, run: str) -> str:
    return f"`mixprec doctor {shlex.quote(str(folder / run))}`"
