"""An ``eps`` that 16-bit arithmetic does not hold: where an optimizer updates fp16 parameters themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from ._kernel_optimizer import KernelOptimizer


def lost_eps(optimizer: Optimizer, group: Mapping[str, Any]) -> float | None:
    """The ``eps`` of a group with fp16 parameters that is 0 in fp16, so that a gradient of zero would be 0 / 0.

    ``None``: it is none, or the optimizer is one of ``mixprec.optim``, which compute in fp32.

    Example:
        >>> p = torch.nn.Parameter(torch.ones(1).half())
        >>> optimizer = torch.optim.Adam([p])
        >>> lost_eps(optimizer, optimizer.param_groups[0])
        1e-08
    """
    eps = group.get("eps", optimizer.defaults.get("eps"))
    if isinstance(optimizer, KernelOptimizer) or not isinstance(eps, float) or not eps > 0:
        return None
    is_lost = float(torch.tensor(eps, dtype=torch.float16)) == 0
    return eps if is_lost and any(p.dtype == torch.float16 for p in group["params"]) else None
