"""The amaxes of earlier passes, from which delayed scaling takes its scale: an explicit value, saved and resumed.

A history is fp32 ``[length + 1]``: slot 0 is the pass that is running, slot 1 the last one that ended. Tensor
operations only: nothing waits for a device, and a compiler can trace it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mixprec.specs import Delayed


def amax_of(history: Tensor, delayed: Delayed) -> Tensor:
    """The amax that the next scale comes from: fp32, 0-d; 0 while no pass has ended.

    Raises:
        ValueError: the history is of another length.

    Source: NVIDIA Transformer Engine, ``DelayedScaling`` (``amax_compute_algo``).

    Example:
        >>> history = torch.tensor([9.0, 1.0, 4.0])
        >>> amax_of(history, Delayed(history=2)).item(), amax_of(history, Delayed(history=2, algorithm="recent")).item()
        (4.0, 1.0)
    """
    if history.shape != (delayed.history + 1,):
        raise ValueError(
            f"the history of '{delayed}' has shape {tuple(history.shape)}, expected ({delayed.history + 1},): the pass "
            f"that is running and the {delayed.history} before it"
        )
    return history[1:].amax() if delayed.algorithm == "max" else history[1].clone()


def record(history: Tensor, amax: Tensor) -> None:
    """Take the amax of a tensor of the running pass; a NaN or infinity leaves no trace.

    Example:
        >>> history = torch.zeros(3)
        >>> record(history, torch.tensor(2.0)); record(history, torch.tensor(float("inf"))); history.tolist()
        [2.0, 0.0, 0.0]
    """
    finite = torch.where(amax.isfinite(), amax, torch.zeros_like(amax))
    history[0].copy_(torch.maximum(history[0], finite))


def roll(history: Tensor) -> None:
    """End the running pass, if it saw a tensor, and begin the next.

    Example:
        >>> history = torch.tensor([3.0, 2.0, 1.0])
        >>> roll(history); history.tolist()
        [0.0, 3.0, 2.0]
    """
    rolled = torch.cat((torch.zeros_like(history[:1]), history[:-1]))
    history.copy_(torch.where(history[0] > 0.0, rolled, history))
