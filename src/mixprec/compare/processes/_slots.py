"""How many runs go at once, and what each may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import torch

from .._comparison import Comparison
from .._estimate import estimate
from .._memory import process_bytes

#: Share of the free memory that runs may take together: what else the machine does has the rest.
_USABLE = 0.8
#: A process's own context on an accelerator, as CUDA's libraries take it [bytes].
_CONTEXT = 600_000_000
_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def slots_by_cores(jobs: int | Literal["auto"], runs: int) -> int:
    """How many of so many runs go at once.

    Raises:
        ValueError: ``jobs`` is below 1, or another word.

    Example:
        >>> slots_by_cores(4, 2), 1 <= slots_by_cores("auto", 3) <= 3
        (2, True)
    """
    asked = cores() if jobs == "auto" else jobs
    if type(asked) is not int or asked < 1:
        raise ValueError(f"jobs is {jobs!r}, expected a number of runs at once, 1 or more, or 'auto'")
    return max(1, min(asked, runs))


def slots_of(comparison: Comparison, jobs: int | Literal["auto"]) -> int:
    """How many of a comparison's runs go at once; ``"auto"`` forecasts what the largest needs.

    Raises:
        ValueError: ``jobs`` is below 1, or another word.
    """
    slots = slots_by_cores(jobs, len(comparison.recipes) * len(comparison.seeds))
    if jobs != "auto" or slots == 1:
        return slots
    forecasts = estimate(comparison.source, comparison.recipes, None, seed=comparison.seeds[0])
    peak = max(forecast.memory.peak for forecast in forecasts)
    if torch.device(comparison.device).type == "cuda":
        free, _ = torch.cuda.mem_get_info(comparison.device)
        room = free // (peak + _CONTEXT)
    else:
        room = int(_USABLE * free_memory()) // (peak + process_bytes())
    return max(1, min(slots, int(room)))


def free_memory() -> int:
    """Bytes that new processes may take: what the machine has free, within this container's limit."""
    found = [number for number in (_machine_free(), _container_free()) if number is not None]
    return min(found, default=0)


def _machine_free() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    # Where the system tells no more: all of it, of which runs take a share only.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _container_free() -> int | None:
    try:
        limit, used = ((_CGROUP / f"memory.{name}").read_text(encoding="utf-8").strip() for name in ("max", "current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # no such limit, or "max"
        return None


def threads_of(slots: int) -> int:
    """Threads of each run, so that all together use the threads that torch uses here."""
    return max(1, torch.get_num_threads() // slots)


def child_environment(slots: int) -> dict[str, str]:
    """The environment of a command: this process's, with its share of the cores where several run at once."""
    environment = dict(os.environ)
    if slots > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores() // slots)))
    return environment
