"""Several who watch a loop, as one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ._finding import Finding
from ._step_watch import StepFacts, StepWatch


class StepWatches:
    """Tells each of several watches, in their order; of none: nobody.

    Example:
        >>> StepWatches(()).dropped()
    """

    def __init__(self, watches: Sequence[StepWatch]) -> None:
        self._watches = tuple(watches)

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """A loss (its name, its scale) is about to be backpropagated."""
        for watch in self._watches:
            watch.begin_backward(loss, name, scale)

    def end_backward(self) -> None:
        """It was."""
        for watch in self._watches:
            watch.end_backward()

    def before_update(self, facts: StepFacts) -> None:
        """The weights are about to change."""
        for watch in self._watches:
            watch.before_update(facts)

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The weights have changed; what all have found."""
        return tuple(finding for watch in self._watches for finding in watch.after_update(facts))

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The gradients are not finite; what all have found."""
        return tuple(finding for watch in self._watches for finding in watch.skipped(facts))

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""
        for watch in self._watches:
            watch.dropped()

    def failed(self, error: BaseException) -> None:
        """The loop is left by an exception."""
        for watch in self._watches:
            watch.failed(error)

    def close(self) -> None:
        """The session ends."""
        for watch in self._watches:
            watch.close()
