"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


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
