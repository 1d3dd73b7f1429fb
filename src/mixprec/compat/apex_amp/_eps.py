"""An ``eps`` that 16-bit arithmetic holds: where an optimizer updates fp16 parameters themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

from ...optim import lost_eps


def check_eps(optimizer: Optimizer, group: Mapping[str, Any]) -> None:
    """Refuse a group of fp16 parameters whose ``eps`` is 0 in fp16.

    Raises:
        ValueError: it is; a gradient of zero would be 0 / 0. The optimizers of ``mixprec.optim`` compute in fp32.
    """
    eps = lost_eps(optimizer, group)
    if eps is not None:
        raise ValueError(
            f"{type(optimizer).__name__} has eps={eps}, which is 0 in fp16, and is to update fp16 parameters without "
            "masters: a zero gradient gives 0 / 0; give the optimizer eps=1e-4, or use opt_level='O2' with its masters"
        )
