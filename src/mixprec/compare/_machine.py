"""The machine and the versions that a comparison ran on, for its records."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from mixprec.kernels import default_backend


def machine_facts(device: str) -> dict[str, str | int | float]:
    """Facts that a time or a last bit may depend on.

    Example:
        >>> facts = machine_facts("cpu")
        >>> facts["device"], sorted(facts)[:3]
        ('cpu', ['cores', 'cpu', 'cpu_capability'])
    """
    facts: dict[str, str | int | float] = {
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device,
        "kernels": default_backend(torch.device(device).type).name,
    }
    if torch.device(device).type == "cuda":
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts


def cpu_name() -> str:
    """The processor's name as the system tells it, else its architecture."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def package_versions() -> dict[str, str]:
    """Versions of Python, torch and this package.

    Example:
        >>> sorted(package_versions())
        ['mixprec', 'python', 'torch']
    """
    return {"mixprec": package_version(), "torch": torch.__version__, "python": platform.python_version()}


def package_version() -> str:
    """The installed version; ``"source tree"`` where it is not installed."""
    try:
        return version("mixprec")
    except PackageNotFoundError:
        return "source tree"
