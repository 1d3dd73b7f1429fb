"""The quality of a model at one moment, in the recipe's own forward pass and in plain fp32."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from mixprec.records import EvaluationRecord, Forward

from ._workload import Workload


def evaluations(
    workload: Workload, model: nn.Module, twin: nn.Module, *, recipe: str, seed: int, step: int
) -> Iterator[EvaluationRecord]:
    """Evaluate a model as it is trained, then with the same weights in fp32.

    Args:
        workload: whose ``evaluate`` is called, in eval mode without gradients.
        model: that is trained; it is in training mode afterwards.
        twin: an unconverted model of the same kind, whose weights are overwritten.
        recipe: for the records.
        seed: likewise.
        step: steps taken before.
    """
    twin.load_state_dict(model.state_dict())
    pairs: tuple[tuple[Forward, nn.Module], ...] = (("recipe", model), ("fp32", twin))
    for forward, evaluated in pairs:
        evaluated.eval()
        with torch.no_grad():
            metrics = {name: float(value) for name, value in workload.evaluate(evaluated).items()}
        evaluated.train()
        yield EvaluationRecord(recipe=recipe, seed=seed, step=step, forward=forward, metrics=metrics)
