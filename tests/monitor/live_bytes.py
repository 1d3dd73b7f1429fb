"""An independent count of tensor memory: the profiler's events of allocations and frees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def run_and_count(work: Callable[[], T]) -> tuple[T, int, int]:
    """What ``work`` gives, the bytes that it allocated and that are still there, and the most at once (CPU)."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        result = work()
    assert profiler.profiler is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        highest = max(highest, live)
    return result, live, highest
