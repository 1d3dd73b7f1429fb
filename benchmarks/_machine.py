"""What a measurement was taken on."""

import os
import platform
from pathlib import Path

import torch


def machine(threads: int) -> dict[str, object]:
    """Facts of this machine that a time depends on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
