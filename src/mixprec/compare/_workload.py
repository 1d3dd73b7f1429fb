"""What a comparison trains: a model, its data, its loss, its optimizer and its measure of quality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ._metric_goal import MetricGoal


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A training job that can be run again under another recipe.

    A comparison calls ``workload(seed, device)`` once per seed, copies ``model`` for each recipe and hands the
    copy to every function below. Functions therefore use the model that they are given, never one that they
    closed over, and equal arguments must give equal results.

    Attributes:
        model: the initial model, on its device, in fp32.
        loss: ``loss(model, batch)`` runs the forward pass and returns a scalar tensor.
        batches: ``batches(step)`` returns the batch of a step (counted from 0), the same for every call with
            that step: every recipe then sees the same data in the same order.
        optimizer: ``optimizer(parameters)`` builds a new optimizer; its learning rates are the base rates.
        steps: how many training steps to take, at least 1.
        evaluate: ``evaluate(model)`` returns named metrics, among them ``"loss"`` (lower is better). A slice is
            named ``metric/slice``, e.g. ``"accuracy/digit-3"``. It is called in eval mode without gradients.
        metrics: what is to be said of metrics that ``evaluate`` returns: which values are better, and the gap that a
            recipe may cost at most. A slice without an entry has its metric's direction.
        schedule: ``schedule(step)`` returns what the base learning rates are multiplied by at the step after
            ``step`` applied steps (a skipped step does not count); ``None`` keeps them constant.
        clip_norm: largest norm of the unscaled gradient; ``None`` does not clip.
        tokens_per_step: tokens (or samples) in a batch, for the throughput shown; ``None`` shows none.
        name: what the report calls it.
        data: what the workload says of its data, e.g. ``{"name": ..., "sha256": ...}``; kept with the records.

    Raises:
        ValueError: if ``steps`` is below 1 or ``clip_norm`` is not positive.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> x = torch.linspace(-1, 1, 8).reshape(8, 1)
        >>> fit = Workload(
        ...     model=nn.Linear(1, 1),
        ...     loss=lambda model, batch: (model(batch) - 2 * batch).square().mean(),
        ...     batches=lambda step: x,
        ...     optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        ...     steps=20,
        ...     evaluate=lambda model: {"loss": (model(x) - 2 * x).square().mean().item()},
        ... )
        >>> fit.steps
        20
    """

    model: nn.Module
    loss: Callable[[nn.Module, Any], Tensor]
    batches: Callable[[int], Any]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    steps: int
    evaluate: Callable[[nn.Module], Mapping[str, float]]
    schedule: Callable[[int], float] | None = None
    clip_norm: float | None = None
    tokens_per_step: int | None = None
    name: str = ""
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    metrics: Mapping[str, MetricGoal] = field(default_factory=dict[str, MetricGoal])

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a workload takes at least 1 step, got steps={self.steps}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive, got {self.clip_norm}; None does not clip")
