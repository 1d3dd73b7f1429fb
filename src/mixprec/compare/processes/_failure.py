"""A process that did not end well, as records."""

from __future__ import annotations

from collections.abc import Iterator

from mixprec.records import EventRecord, Record, RunEndRecord

from ._child import STDERR, Child, how_it_ended
from ._run_place import RUNS

_CUT = 300


def failed(recipe: str, seed: int, child: Child, what: str, *, step: int = 0) -> Iterator[Record]:
    """Tell what went wrong, and how the process's words on standard error ended."""
    lines = child.last_lines()
    if lines:
        message = "\n".join(lines)
        yield EventRecord(recipe=recipe, seed=seed, step=step, name="exception", site="", message=message)
    last = f": {lines[-1].strip()[:_CUT]}" if lines else ""
    where = f" (the end of {RUNS}/{child.place.name}/{STDERR})" if lines else ""
    yield RunEndRecord(recipe=recipe, seed=seed, status="failed", reason=f"{what}{last}{where}")


def killed_or_failed(recipe: str, seed: int, child: Child, status: int, *, step: int = 0) -> Iterator[Record]:
    """Tell of an exit status that is not 0; a killed process is begun anew by ``--resume``."""
    again = "; --resume runs it again" if status < 0 else ""
    yield from failed(recipe, seed, child, f"{how_it_ended(status)}{again}", step=step)
