"""The other side of a run in a process of its own: train, and write records until the end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import torch

from mixprec.records import write_records
from mixprec.specs import Recipe

from .._comparison import Comparison
from .._folder import RECORDS
from .._loading import load_workload
from .._runner import run
from ._workload_job import ORDER

#: Seconds for an orderly end where the comparison has gone.
_PATIENCE = 5.0


def work(place: Path) -> None:
    """Do the run that a folder's ``run.json`` asks for.

    Args:
        place: the run's folder; records are written there.

    Raises:
        ValueError: a workload or a recipe that does not work, or a workload's file that has changed.
        OSError: something cannot be read or written.
    """
    threading.Thread(target=_end_with_the_comparison, daemon=True).start()
    order = json.loads((place / ORDER).read_text(encoding="utf-8"))
    torch.set_num_threads(order["threads"])
    source = load_workload(order["workload"], steps=order["steps"], data=order["data"])
    if source.sha256 != order["sha256"]:
        raise ValueError(f"{source.name} has changed since the comparison began: start it anew")
    recipe = Recipe.from_toml(order["recipe"])
    comparison = Comparison(source=source, recipes=(recipe,), seeds=(order["seed"],), device=order["device"])
    for record in run(comparison):
        write_records(place / RECORDS, [record])


def _end_with_the_comparison() -> None:
    """Standard input ends when the process that holds its other end does, however that was."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_PATIENCE)
    os._exit(1)
