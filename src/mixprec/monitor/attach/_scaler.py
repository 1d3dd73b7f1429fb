"""Hears of the steps that a ``GradScaler`` skips: its class becomes a subclass of itself until it is given back.

A skipped step calls no optimizer, so that no hook of torch's tells of it; the scaler alone knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from torch.optim import Optimizer

_BASE = "_mixprec_base"


class ScaledSteps(Protocol):
    """Who is told of a scaler's steps."""

    def scaled_step(self, optimizer: Optimizer, step: Callable[[], Any]) -> Any:
        """The scaler is asked for a step of an optimizer; ``step`` takes or skips it."""
        ...


def listen(scaler: Any, listener: ScaledSteps) -> None:
    """Tell ``listener`` of the steps of a scaler; copies of it, and what is pickled of it, are of its own class.

    Raises:
        TypeError: it has no ``step``.
        ValueError: somebody listens already.
    """
    if not callable(getattr(type(scaler), "step", None)):
        raise TypeError(
            f"monitor: scaler is a {type(scaler).__name__}, expected a torch.amp.GradScaler, or one with its step()"
        )
    if _BASE in vars(type(scaler)):
        raise ValueError("monitor: the scaler is watched by another monitor already: call remove() on that one")
    scaler.__class__ = _listening(type(scaler), listener)


def leave(scaler: Any) -> None:
    """Give a scaler its own class back."""
    base = vars(type(scaler)).get(_BASE)
    if base is not None:
        scaler.__class__ = base


def _listening(base: type[Any], listener: ScaledSteps) -> type[Any]:
    def step(self: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        return listener.scaled_step(optimizer, functools.partial(base.step, self, optimizer, *args, **kwargs))

    def reduce_ex(self: Any, protocol: Any) -> Any:
        # How copy and pickle take an object apart; in the parts its class is one that can be imported.
        made, given, *rest = super(listening, self).__reduce_ex__(protocol)
        if getattr(made, "__name__", "") == "__newobj__":  # of copyreg's: pickle takes it for the object's class alone
            made = base.__new__
        return (made, tuple(base if x is listening else x for x in given), *rest)

    about = {"__module__": base.__module__, "__doc__": base.__doc__, "__qualname__": base.__qualname__, _BASE: base}
    listening: type[Any] = type(base.__name__, (base,), {"step": step, "__reduce_ex__": reduce_ex, **about})
    return listening
