"""What became of a run, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from mixprec.records import Rung

from ._drilled import FaultRun, HealthyRun


def rungs_told(rungs: Iterable[Rung]) -> str:
    """Rungs in their order, repeated ones counted.

    Example:
        >>> rungs_told(["rewind", "skip", "skip"])
        'rewind, skip x2'
    """
    counted = [(rung, len(list(same))) for rung, same in groupby(rungs)]
    return ", ".join(rung if count == 1 else f"{rung} x{count}" for rung, count in counted)


def told_healthy(run: HealthyRun) -> str:
    """Of a run without a fault."""
    if not run.triggers:
        return f"loss {run.loss:.4f}, no alarm"
    return f"loss {run.loss:.4f}, {len(run.triggers)} false alarm(s): {', '.join(run.triggers)}"


def told_fault(run: FaultRun) -> str:
    """Of a run with a fault, under guard: what was seen and when, what was done, what is left of it."""
    return "; ".join(part for part in (_seen(run), _done(run), _left(run)) if part)


def _seen(run: FaultRun) -> str:
    early = f"{run.false_alarms} false alarm(s) before it, " if run.false_alarms else ""
    limit = "" if run.within is None else f" (limit {run.within})"
    if run.detected is None:
        return early + ("not seen" + limit if run.within is not None or not run.harmless else "not seen, and harmless")
    where = f" at {run.site}" if run.site else ""
    late = ", too late" if not run.in_time else ""
    return f"{early}seen after {run.detected} step(s){limit}{late} by {run.trigger}{where}"


def _done(run: FaultRun) -> str:
    return f"done: {rungs_told(run.rungs)}" if run.rungs else ""


def _left(run: FaultRun) -> str:
    losses = (
        f"loss {run.loss:.4f}, without the fault {run.loss_without_fault:.4f}, without the guard "
        f"{run.loss_without_guard:.4f}"
    )
    if run.ended:
        return f"the run ended: {run.ended}; {losses}"
    word = "recovered" if run.recovered else "not recovered"
    return f"{word}{', made worse by the guard' if run.worse else ''}: {losses}"
