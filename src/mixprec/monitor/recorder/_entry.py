"""One step in the ring."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ...records import Outcome, RecordedStep, StatisticsRecord, StatisticsRow
from .._step_watch import StepFacts
from ._batch import BatchIdentity

#: Micro-batches and tensors of one step that are remembered.
_PASSES, _STATISTICS = 64, 4096


@dataclass(kw_only=True)
class StepEntry:
    """What is known of a step so far; numbers that are on the device stay there until a dump asks.

    Attributes:
        step: applied steps before it.
        outcome: what became of it.
        began: when [s since 1970].
        backward: name and value of each loss that was backpropagated.
        facts: once its gradients have been looked at; without gradients and parameters.
        batches: one for each forward pass.
        states: of the random generators when its first forward pass began; ``None`` where none was seen.
        statistics: where it was sampled.
        optimizers: that took it.
    """

    step: int
    outcome: Outcome = "in flight"
    began: float = field(default_factory=time.time)
    backward: list[tuple[str, Tensor]] = field(default_factory=list[tuple[str, Tensor]])
    losses: tuple[tuple[str, float], ...] = ()
    grad_norm: float | None = None
    norms: Mapping[str, float] = field(default_factory=dict[str, float])
    loss_scales: Mapping[str, float] = field(default_factory=dict[str, float])
    batches: list[BatchIdentity] = field(default_factory=list[BatchIdentity])
    states: dict[str, Any] | None = None
    statistics: list[StatisticsRow] = field(default_factory=list[StatisticsRow])
    optimizers: tuple[str, ...] = ()

    def goes_on(self, facts: StepFacts) -> bool:
        """Whether another optimizer has stepped by the same passes: none was seen since."""
        return bool(self.optimizers and facts.optimizers) and not set(self.optimizers) & set(facts.optimizers)

    def add_loss(self, name: str, loss: Tensor) -> None:
        """A loss is about to be backpropagated."""
        if len(self.backward) < _PASSES:
            self.backward.append((name, loss.detach()))

    def add_batch(self, batch: BatchIdentity) -> None:
        """A forward pass has begun."""
        if len(self.batches) < _PASSES:
            self.batches.append(batch)

    def add_statistics(self, records: Iterable[StatisticsRecord]) -> None:
        """The step was sampled."""
        for r in records:
            if len(self.statistics) < _STATISTICS:
                self.statistics.append({name: getattr(r, name) for name in StatisticsRow.__annotations__})  # pyright: ignore[reportArgumentType]

    def end(self, outcome: Outcome, facts: StepFacts) -> None:
        """Its gradients have been looked at."""
        self.outcome, self.step = outcome, facts.step
        self.losses, self.grad_norm = facts.losses, facts.grad_norm
        self.norms, self.loss_scales = facts.norms, facts.loss_scales
        self.optimizers = facts.optimizers
        self.backward.clear()

    def record(self) -> RecordedStep:
        """As a dump tells it; what is on a device is read now."""
        losses = self.losses or [(name, float(loss)) for name, loss in self.backward]
        return RecordedStep(
            step=self.step,
            outcome=self.outcome,
            time=self.began,
            losses=_by_name(losses),
            grad_norm=self.grad_norm,
            norms=dict(self.norms),
            loss_scales=dict(self.loss_scales),
            batches=tuple(batch.row() for batch in self.batches),
            statistics=tuple(self.statistics),
        )


def _by_name(losses: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Losses by name; a second one of a name (another micro-batch's) gets a number."""
    found: dict[str, float] = {}
    for name, value in losses:
        key, number = name, 2
        while key in found:
            key, number = f"{name}#{number}", number + 1
        found[key] = value
    return found
