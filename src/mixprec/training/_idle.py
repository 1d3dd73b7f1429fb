"""Parameters that no update is to move: their learning rate is zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ..optim import KeptWeights


def idle_parameters(kept: Iterable[KeptWeights]) -> set[int]:
    """The identities (``id``) of the model's parameters whose learning rate is zero.

    Args:
        kept: optimizers, whose groups may hold masters in the parameters' place.
    """
    return {
        id(param)
        for weights in kept
        for param, rate in zip(weights.parameters(), _rates(weights), strict=True)
        if _is_zero(rate)
    }


def _rates(weights: KeptWeights) -> list[Any]:
    return [group.get("lr") for group in weights.optimizer.param_groups for _ in group["params"]]


def _is_zero(rate: Any) -> bool:
    """Whether a learning rate is 0; one that is a tensor is not brought to the host for it."""
    return not isinstance(rate, Tensor) and rate == 0
