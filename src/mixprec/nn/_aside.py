"""A pass that is none of the training's: it leaves the state of a conversion as if it had never run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from torch import Tensor

from ._site import ConversionState


@contextmanager
def aside(state: ConversionState, random: Tensor, histories: Mapping[str, Tensor]) -> Generator[None]:
    """Passes inside draw from ``random`` and scale by ``histories`` (copies of them); nobody measures or watches them.

    The state's own tensors are put aside, not written to: their versions tell a session where forward passes stand.
    """
    current, names = state.current, ("random", "histories", "observer", "watch", "passes")
    before, of_pass = {name: getattr(state, name) for name in names}, dict(vars(current))
    state.random, state.histories = random.clone(), {name: history.clone() for name, history in histories.items()}
    state.observer = state.watch = None
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(state, name, value)
        vars(current).update(of_pass)
