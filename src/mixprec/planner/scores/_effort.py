"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured beside the forward products of weights, and for how long.

    Attributes:
        activations: whether products of activations with one another are scored; without them attention runs fused.
        gradients: whether it is measured what candidates do to the weights' gradients.
        most_steps: batches after the first are measured only while they are expected to end within the time of so many
            plain forward and backward passes; ``None``: all are. What is measured then depends on the machine's speed.

    Raises:
        ValueError: no positive number of steps.
    """

    activations: bool = True
    gradients: bool = True
    most_steps: float | None = None

    def __post_init__(self) -> None:
        if self.most_steps is not None and not self.most_steps > 0:
            raise ValueError(f"most_steps is {self.most_steps}: expected a number above 0, or None for no limit")

    def allows(self, spent: float, next_batch: float, step: float) -> bool:
        """Whether another batch is expected to end in time.

        Args:
            spent: seconds so far.
            next_batch: seconds that the last one took.
            step: seconds of a plain pass.

        Example:
            >>> Effort(most_steps=12).allows(0.7, 0.4, 0.1), Effort(most_steps=12).allows(0.9, 0.4, 0.1)
            (True, False)
        """
        return self.most_steps is None or spent + next_batch <= self.most_steps * step
