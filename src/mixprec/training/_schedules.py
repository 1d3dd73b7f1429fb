"""Learning-rate schedules that a session steps: on applied steps only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import cast

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

_ADVICE = "expected a scheduler of torch.optim.lr_scheduler, or a mapping from optimizers' names to such"


class Schedules(dict[str, LRScheduler]):
    """Schedules by the name of their optimizer.

    Raises:
        TypeError: what is none.
        ValueError: one that needs a metric, is of another optimizer, or has no optimizer of that name.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> Schedules(schedule, {"optimizer": optimizer}).advance(["optimizer"])
        >>> optimizer.param_groups[0]["lr"]
        0.5
    """

    def __init__(self, given: object, optimizers: Mapping[str, Optimizer]) -> None:
        super().__init__()
        if given is None:
            return
        if not isinstance(given, Mapping):
            given = {_owner(given, optimizers): given}
        for name, schedule in cast("Mapping[str, object]", given).items():
            self[name] = _checked(name, schedule, optimizers)

    def advance(self, names: Iterable[str]) -> None:
        """Step the schedules of optimizers that have just stepped."""
        for name in names:
            if name in self:
                with warnings.catch_warnings():
                    # The optimizer has stepped, though it may be a fused one whose own step() was not called.
                    warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
                    self[name].step()


def _owner(schedule: object, optimizers: Mapping[str, Optimizer]) -> str:
    """The name of the optimizer that a schedule drives."""
    own = getattr(schedule, "optimizer", None)
    found = next((name for name, optimizer in optimizers.items() if optimizer is own), None)
    return found or next(iter(optimizers))


def _checked(name: str, schedule: object, optimizers: Mapping[str, Optimizer]) -> LRScheduler:
    if name not in optimizers:
        raise ValueError(f"prepare: schedule for optimizer '{name}', expected one of: {', '.join(optimizers)}")
    kind = type(schedule).__name__
    if isinstance(schedule, ReduceLROnPlateau):
        raise ValueError(
            "prepare: ReduceLROnPlateau follows a metric, which a session does not know: leave it out of prepare and "
            "call schedule.step(metric) after each evaluation"
        )
    if not isinstance(schedule, LRScheduler):
        raise TypeError(f"prepare: schedule is a {kind}; {_ADVICE}")
    if schedule.optimizer is not optimizers[name]:
        raise ValueError(
            f"prepare: the {kind} given for optimizer '{name}' drives another optimizer: build it with that one"
        )
    return schedule
