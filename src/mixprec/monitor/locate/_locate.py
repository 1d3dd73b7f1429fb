"""Look into one step of any loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...nn import ROOT, conversion_of
from .._aside import everything_aside
from ._cast_watch import CastWatch
from ._fault import LOSS, Fault
from ._locator import fault_of, saturation_of
from ._values import is_finite
from ._watch_mode import FiniteWatch
from ._weights import bad_weight


def locate(model: nn.Module, run_step: Callable[[], Any], *, step: int = 0) -> Fault | None:
    """Run one step watched, the loss with it, and name the first operation that made what is not finite.

    Weights, gradients, buffers and random states are left as they were. Nothing that is compiled runs compiled.

    Args:
        model: whose modules name the sites; what runs outside of it is told as ``<loss>``.
        run_step: runs the forward pass and returns the loss, which is backpropagated here; or does both and returns
            ``None``. No optimizer's step.
        step: number to tell.

    Returns:
        The fault, or ``None`` where everything is finite.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> print(locate(model, lambda: (model(torch.ones(1, 1)) * 0).log().sum()))
        -inf in <loss> (input)
    """
    fault = bad_weight(dict(model.named_parameters()), step)
    if fault is not None:
        return fault
    conversion = conversion_of(model)
    watch = FiniteWatch(model)
    casts = CastWatch(watch)
    with everything_aside(model, conversion):
        loss = None
        with nullcontext() if conversion is None else conversion.watched_by(casts), watch, torch.enable_grad():
            loss = run_step()
            if isinstance(loss, Tensor) and loss.requires_grad:
                with nullcontext() if conversion is None else conversion.region():
                    loss.backward()
        bad = [p.grad for p in model.parameters() if p.grad is not None and not is_finite(p.grad)]
        if isinstance(loss, Tensor) and not is_finite(loss):
            bad.append(loss)
        candidate = watch.culprit_of(bad) or (watch.candidates[0] if bad and watch.candidates else None)
    if candidate is None:
        return saturation_of(casts, step)
    found = fault_of(step, candidate)
    return found if found.site != ROOT else _outside(found)


def _outside(fault: Fault) -> Fault:
    """What ran in no module of the model is the loss's; so is what the root does by itself."""
    return replace(fault, site=LOSS)
