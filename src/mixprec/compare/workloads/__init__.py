"""The built-in workloads. A new one is a module with a function ``workload`` and a line in ``BUILT_IN``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .._workload import Workload
from . import gpt, resnet

BUILT_IN: Mapping[str, Callable[..., Workload]] = MappingProxyType({"gpt": gpt.workload, "resnet": resnet.workload})

__all__ = ["BUILT_IN"]
