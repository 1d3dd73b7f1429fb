"""What keeps torch's profiler (it measures memory) from writing to stderr at each use: torch reads it as it loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

#: Environment variables and their values.
QUIET: Mapping[str, str] = MappingProxyType({"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"})


def be_quiet() -> None:
    """Set what the user has not set; to be called before torch is imported.

    Example:
        >>> be_quiet()
        >>> "KINETO_LOG_LEVEL" in os.environ
        True
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
