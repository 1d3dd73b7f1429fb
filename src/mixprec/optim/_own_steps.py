"""Steps of an optimizer that holds masters: only those that its keeper takes reach the model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle


class OwnSteps:
    """Tells a keeper's own steps from others, which it refuses once ``guard`` was called.

    Copies and pickles of an optimizer have no hooks: theirs are not refused.

    Args:
        holds_masters: whether a step of somebody else would not reach the model.
    """

    def __init__(self, holds_masters: Callable[[], bool]) -> None:
        self._holds_masters = holds_masters
        self._handles: list[RemovableHandle] = []
        self._is_stepping = False

    def guard(self, optimizers: Iterable[Optimizer]) -> None:
        """Refuse steps of these from now on, but within ``stepping``."""
        for optimizer in optimizers:
            if "_optimizer_step_pre_hooks" in vars(optimizer):  # a wrapper without Optimizer.__init__ has no hooks
                self._handles.append(optimizer.register_step_pre_hook(self._refuse))

    @contextmanager
    def stepping(self) -> Generator[None]:
        """The keeper's own step."""
        self._is_stepping = True
        try:
            yield
        finally:
            self._is_stepping = False

    def release(self) -> None:
        """Refuse nothing any more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _refuse(self, optimizer: Optimizer, *_: object) -> None:
        if self._is_stepping or not self._holds_masters():
            return
        who = type(optimizer).__name__
        raise RuntimeError(
            f"{who}.step() was called beside the session: the optimizer holds fp32 masters of 16-bit parameters, which "
            "only the session's own step fills and rounds into the model: call session.step(loss) in place of "
            "loss.backward() and optimizer.step(), or session.restore() to train without the session"
        )
