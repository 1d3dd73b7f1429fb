"""What a training loop tells those who watch it, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor
from torch.nn import Parameter

from ._finding import Finding


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """One step, as it is known when its gradients have been looked at.

    Attributes:
        step: applied steps before it.
        losses: name and value of each loss in its gradients; none where no loss is known.
        grad_norm: 2-norm of all gradients, unscaled, before clipping.
        norms: that of each parameter's gradient, by the parameter's name; inf or NaN where an element is.
        is_finite: whether all gradients are, on all ranks.
        scale: what ``gradients`` are multiplied by.
        loss_scales: what each loss was multiplied by, by its name.
        gradients: by the parameter's name, still multiplied by ``scale``; not to be changed.
        parameters: the model's own, by name, before the update.
        optimizers: names of those that step; none where the loop has none.
    """

    step: int
    losses: tuple[tuple[str, float], ...]
    grad_norm: float
    norms: Mapping[str, float]
    is_finite: bool
    scale: float
    loss_scales: Mapping[str, float]
    gradients: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]
    optimizers: tuple[str, ...] = ()


@runtime_checkable
class StepWatch(Protocol):
    """Who is told of each step.

    For each step: any number of ``begin_backward`` and ``end_backward`` (one pair a micro-batch), then either
    ``before_update`` and ``after_update``, or ``skipped``; a dropped window ends with ``dropped``. Where several
    optimizers of somebody else's loop step by the same passes, each is told by a ``before_update`` of its own, with its
    own facts, and ``after_update`` tells of all. None of them may change gradients, weights or random states.

    One that has ``state_dict()`` and ``load_state_dict(state)``, of plain values and tensors, goes on where a session
    does.
    """

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """A loss (its name, its scale) is about to be backpropagated."""
        ...

    def end_backward(self) -> None:
        """It was."""
        ...

    def before_update(self, facts: StepFacts) -> None:
        """The weights are about to change; in a loop that is not a session's perhaps by what is not finite."""
        ...

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The weights have changed."""
        ...

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The gradients are not finite. Buffers, random offsets and gradients are still as the passes left them."""
        ...

    def dropped(self) -> None:
        """What was backpropagated is thrown away; no step comes of it."""
        ...

    def failed(self, error: BaseException) -> None:
        """The loop is left by an exception."""
        ...

    def close(self) -> None:
        """The session ends; hooks go, files are closed."""
        ...


class QuietWatch:
    """A ``StepWatch`` that does nothing; who watches for one thing says what it does then.

    Example:
        >>> isinstance(QuietWatch(), StepWatch)
        True
    """

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """Nothing."""

    def end_backward(self) -> None:
        """Nothing."""

    def before_update(self, facts: StepFacts) -> None:
        """Nothing."""

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Nothing is found."""
        return ()

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Nothing is found."""
        return ()

    def dropped(self) -> None:
        """Nothing."""

    def failed(self, error: BaseException) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
