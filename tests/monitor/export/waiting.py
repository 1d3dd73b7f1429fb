"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

from mixprec.monitor.export import Exporters, IncidentCommand, IncidentWebhook
from tests.monitor.export.made_records import incident, step


def until(holds: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether something comes to hold within a time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def times_of(action: Callable[[int], None], calls: int) -> list[float]:
    """How long each of several calls takes [s], the shortest first."""
    taken = list[float]()
    for number in range(calls):
        start = time.perf_counter()
        action(number)
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def hear_failures(exporters: Exporters, hook: IncidentCommand | IncidentWebhook, failures: int) -> None:
    """Let each of some incidents fail, and a few steps come after them."""
    for number in range(failures):
        exporters.take(incident(number))
    assert until(lambda: hook._queue._failures == failures)
    exporters.hear([step(number) for number in range(5)])


def times_until_failure(hook: IncidentCommand | IncidentWebhook) -> list[float]:
    """How long a hook that hangs keeps each of 300 records [s]; the first incident has failed at the end."""
    taken = times_of(lambda number: hook.take(step(number)), 200)
    taken += times_of(lambda number: hook.take(incident(2 + number)), 100)
    assert until(lambda: hook._queue._failures)
    hook.take(step())
    return taken
