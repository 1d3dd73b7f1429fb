"""Hears of the steps that a ``GradScaler`` skips: its class becomes a subclass of itself until it is given back.

A skipped step calls no optimizer, so that no hook of torch's tells of it; the scaler alone knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from torch.optim import Optimizer

_LISTENER = "_mixprec_steps"


class ScaledSteps(Protocol):
    """Who is told of a scaler's steps."""

    def scaled_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """The scaler is asked for a step of an optimizer; ``step`` takes or skips it."""
        ...


def listen(scaler: Any, listener: ScaledSteps) -> None:
    """Tell ``listener`` of the steps of a scaler.

    Raises:
        TypeError: it has no ``step``.
        ValueError: somebody listens already.
    """
    if not callable(getattr(type(scaler), "step", None)):
        raise TypeError(
            f"monitor: scaler is a {type(scaler).__name__}, expected a torch.amp.GradScaler, or one with its step()"
        )
    if _LISTENER in vars(scaler):
        raise ValueError("monitor: the scaler is watched by another monitor already: call remove() on that one")
    vars(scaler)[_LISTENER] = listener
    scaler.__class__ = _listening(type(scaler))


def leave(scaler: Any) -> None:
    """Give a scaler its own class back."""
    if vars(scaler).pop(_LISTENER, None) is not None:
        scaler.__class__ = type(scaler).__mro__[1]


@functools.cache
def _listening(base: type[Any]) -> type[Any]:
    def step(self: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        taken = functools.partial(base.step, self, optimizer, *args, **kwargs)
        return vars(self)[_LISTENER].scaled_step(optimizer, taken)

    return type(base.__name__, (base,), {"step": step, "__module__": base.__module__, "__doc__": base.__doc__})
