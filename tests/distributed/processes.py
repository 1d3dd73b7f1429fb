"""Several processes with a gloo group, each of which runs one function of a test module."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

#: Seconds after which a collective operation counts as a deadlock; and the whole run, processes' start included.
TIMEOUT, LIMIT = 30, 180


def run(function: Callable[..., Any], *args: object, world: int = 2) -> list[Any]:
    """What ``function(*args)`` returns on each rank.

    Args:
        function: at module level, since the processes are spawned.
        *args: for it.
        world: how many processes.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = mp.start_processes(
            _rank, args=(world, folder, function, args), nprocs=world, join=False, start_method="spawn"
        )
        try:
            waits = 0
            while not context.join(timeout=1):
                waits += 1
                assert waits < LIMIT, "a deadlock: the processes have not ended"
        finally:
            for process in context.processes:
                if process.is_alive():
                    process.kill()
        found = [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(world)]
    failed = [text for text in found if isinstance(text, _Failure)]
    assert not failed, "\n".join(f.text for f in failed)
    return found


class _Failure:
    def __init__(self, text: str) -> None:
        self.text = text


def _rank(rank: int, world: int, folder: str, function: Callable[..., Any], args: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=TIMEOUT),
    )
    try:
        found = function(*args)
    except Exception:
        found = _Failure(f"rank {rank}: {traceback.format_exc()}")
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
    # Gloo's threads outlive the group for as long as anything holds it, and one that frees a tensor while the
    # interpreter is being torn down aborts the process (pytorch/pytorch#179291): there is no teardown to meet.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
