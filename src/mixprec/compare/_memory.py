"""What a training step holds in memory beside what its session tells: the peak of live tensors, the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from mixprec.monitor import StorageKey, storages_in


@dataclass
class Measured:
    """A number of bytes that is known once its ``with`` block has ended."""

    bytes: int = 0


@contextmanager
def saved_activations(model: nn.Module) -> Generator[Measured]:
    """Count what autograd keeps of a forward pass for its backward, where there is no session to ask.

    ``Session.memory`` tells more: by module, and what no hook sees.
    Storages are counted, each once whatever the number of views saved of it, and whole, for a saved view keeps its
    whole storage alive. Parameters and buffers are not counted; a batch that autograd keeps is.

    Example:
        >>> layer, x = nn.Linear(8, 4), torch.ones(16, 8)
        >>> with saved_activations(layer) as saved:
        ...     y = layer(x)  # the weight's gradient needs x: 16 * 8 * 4 bytes
        >>> saved.bytes
        512
    """
    own = storages_in([*model.parameters(), *model.buffers()])
    kept: dict[StorageKey, int] = {}
    measured = Measured()

    def pack(tensor: Tensor) -> Tensor:
        kept.update(storages_in(tensor))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, _unchanged):
        yield measured
    measured.bytes = sum(n for key, n in kept.items() if key not in own)


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


@contextmanager
def peak_memory(device: torch.device, resident: Callable[[], int]) -> Generator[Measured]:
    """Measure the most bytes of tensor storage alive at once.

    On a CPU the profiler's memory events are summed; on an accelerator its allocator's own peak is read. Both are
    counted from what the block starts with, so other models of the process do not weigh in.

    Args:
        device: where the step runs.
        resident: bytes that belong to the measured job when the block starts (weights, optimizer state).

    Example:
        >>> with peak_memory(torch.device("cpu"), lambda: 0) as peak:
        ...     total = torch.ones(1000).sum()
        >>> 4000 <= peak.bytes < 5000
        True
    """
    measured, start = Measured(), resident()
    if device.type == "cpu":
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profiler:
            yield measured
        measured.bytes = start + _highest(profiler)
    else:
        torch.accelerator.reset_peak_memory_stats(device)
        before = torch.accelerator.memory_allocated(device)
        yield measured
        measured.bytes = start + torch.accelerator.max_memory_allocated(device) - before


def _highest(profiler: torch.profiler.profile) -> int:
    """Highest running sum of allocations less frees."""
    results = profiler.profiler.kineto_results if profiler.profiler is not None else None
    if results is None:
        raise RuntimeError("the profiler kept no events: torch.profiler is not usable here")
    events = [event for event in results.events() if event.name() == "[memory]"]
    highest = live = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += int(event.nbytes())  # pyright: ignore[reportAttributeAccessIssue]  # torch's stub leaves it out
        highest = max(highest, live)
    return highest


def process_bytes() -> int:
    """Resident memory of this process; where the system does not tell it, the highest so far.

    Example:
        >>> process_bytes() > 1_000_000
        True
    """
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if sys.platform == "win32":
        return 0
    import resource

    # macOS counts in bytes where other systems count in KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
