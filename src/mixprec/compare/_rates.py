"""The learning rates that a workload's schedule asks for."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer


class Rates:
    """Base rates of an optimizer, and what they are multiplied by.

    Args:
        optimizer: new; its rates are the base rates.
        schedule: the factor after so many applied steps; ``None`` keeps the rates.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
        >>> Rates(optimizer, lambda applied: 1 / (1 + applied)).set(1)
        >>> optimizer.param_groups[0]["lr"]
        0.25
    """

    def __init__(self, optimizer: Optimizer, schedule: Callable[[int], float] | None) -> None:
        self._optimizer, self._schedule = optimizer, schedule
        self._base = [float(group["lr"]) for group in optimizer.param_groups]

    def set(self, applied: int) -> None:
        """For the step after so many applied ones."""
        if self._schedule is None:
            return
        factor = self._schedule(applied)
        for group, base in zip(self._optimizer.param_groups, self._base, strict=True):
            group["lr"] = base * factor
