"""What the bits of a step depend on, beside the state: versions, CPU, threads."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch

Facts = Mapping[str, str | int]


def machine_facts() -> dict[str, str | int]:
    """Whatever a step's bits depend on, here and now."""
    try:
        own = version("mixprec")
    except PackageNotFoundError:
        own = "source tree"
    return {
        "mixprec": own,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "accelerator": _accelerator(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def changed_facts(before: Facts, now: Facts) -> list[str]:
    """What differs, for people.

    Example:
        >>> changed_facts({"torch": "2.9.0", "threads": 4}, {"torch": "2.9.0", "threads": 2})
        ['threads 4 -> 2']
    """
    names = [*now, *(name for name in before if name not in now)]
    return [f"{name} {before.get(name)} -> {now.get(name)}" for name in names if before.get(name) != now.get(name)]


def _accelerator() -> str:
    if not torch.accelerator.is_available():
        return "none"
    kind = torch.accelerator.current_accelerator()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else str(kind)
    return f"{torch.accelerator.device_count()} x {name}"
