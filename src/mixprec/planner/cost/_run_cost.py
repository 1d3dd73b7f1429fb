"""Hours and money of a run: the training itself, and what comes on top of it, each priced apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...hardware import Hardware
from ._terms import StepTime


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a run spends beside its training steps.

    Attributes:
        evaluations: how often the model is evaluated.
        evaluation_seconds: of one; a forward pass takes about a third of a step.
        checkpoints: how often the state is saved.
        checkpoint_seconds: that training waits for one.
        monitoring: what statistics and alarms add, as a share of the training's time.
        failures_per_day: of one device; each loses half of what lies between two checkpoints, and a restart.
        restart_seconds: until training goes on after a failure.
        reruns: share of the training that is expected to be run again (rollbacks, a second seed).

    Raises:
        ValueError: a negative number.
    """

    evaluations: int = 0
    evaluation_seconds: float = 0.0
    checkpoints: int = 0
    checkpoint_seconds: float = 0.0
    monitoring: float = 0.0
    failures_per_day: float = 0.0
    restart_seconds: float = 0.0
    reruns: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"extras: {name} is {value!r}, expected a number of at least 0")


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """One line of the bill.

    Attributes:
        what: ``"training"``, ``"evaluation"``, ``"checkpoints"``, ``"monitoring"``, ``"failures"`` or ``"reruns"``.
        hours: of wall-clock time.
        money: of all devices, in the currency of the price; ``None`` without a price.
    """

    what: str
    hours: float
    money: float | None


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """The bill of a run.

    Attributes:
        steps: training steps.
        count: devices.
        lines: what it is made of.
        is_validated: whether the step's time was predicted for a device where predictions were compared.
    """

    steps: int
    count: int
    lines: tuple[CostLine, ...]
    is_validated: bool

    @property
    def hours(self) -> float:
        """Of wall-clock time, all lines together."""
        return sum(line.hours for line in self.lines)

    @property
    def money(self) -> float | None:
        """All lines together; ``None`` without a price."""
        if any(line.money is None for line in self.lines):
            return None
        return sum(line.money or 0.0 for line in self.lines)


def estimate_cost(
    step: StepTime | float,
    hardware: Hardware,
    *,
    steps: int | None = None,
    tokens: int | None = None,
    tokens_per_step: int | None = None,
    count: int = 1,
    extras: Extras | None = None,
) -> RunCost:
    """Price a run.

    Args:
        step: its predicted time, or seconds that were measured.
        hardware: whose ``price_per_hour`` is for one device.
        steps: training steps; or
        tokens: to train on, in whole steps of
        tokens_per_step: of all devices together (samples do as well: epochs times the data's size).
        count: devices that are paid for.
        extras: what comes on top.

    Raises:
        ValueError: neither steps nor tokens, both, or a number out of its range.

    Example:
        >>> from dataclasses import replace
        >>> from mixprec.hardware import find
        >>> bill = estimate_cost(0.5, replace(find("h100"), price_per_hour=2.0), steps=7200, count=8)
        >>> bill.hours, bill.money
        (1.0, 16.0)
    """
    total = _steps(steps, tokens, tokens_per_step)
    if count < 1:
        raise ValueError(f"count is {count}, expected at least one device")
    seconds = step.seconds if isinstance(step, StepTime) else step
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"a step takes {seconds!r} seconds, expected a positive number")
    price = hardware.price_per_hour
    lines = [
        CostLine(what=what, hours=spent / 3600, money=None if price is None else spent / 3600 * count * price)
        for what, spent in _spent(total * seconds, count, extras or Extras()).items()
    ]
    validated = step.is_validated if isinstance(step, StepTime) else True
    return RunCost(steps=total, count=count, lines=tuple(lines), is_validated=validated)


def _spent(training: float, count: int, extras: Extras) -> dict[str, float]:
    """Seconds by line; those that nobody asked for are left out."""
    spent = {
        "evaluation": extras.evaluations * extras.evaluation_seconds,
        "checkpoints": extras.checkpoints * extras.checkpoint_seconds,
        "monitoring": extras.monitoring * training,
        "reruns": extras.reruns * training,
    }
    failures = extras.failures_per_day * count * training / 86400
    between = training / (extras.checkpoints + 1)
    spent["failures"] = failures * (between / 2 + extras.restart_seconds)
    return {"training": training, **{what: seconds for what, seconds in spent.items() if seconds}}


def _steps(steps: int | None, tokens: int | None, tokens_per_step: int | None) -> int:
    if (steps is None) == (tokens is None):
        raise ValueError("give either steps or tokens (with tokens_per_step)")
    if steps is not None:
        if steps < 1:
            raise ValueError(f"steps is {steps}, expected at least 1")
        return steps
    if tokens is None or tokens < 1 or tokens_per_step is None or tokens_per_step < 1:
        raise ValueError(f"tokens is {tokens} and tokens_per_step {tokens_per_step}, expected both to be at least 1")
    return math.ceil(tokens / tokens_per_step)
