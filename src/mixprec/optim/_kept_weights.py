"""One optimizer and how the weights that it updates are kept: what a session asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ._wide_gradients import WideGradients


class KeptWeights(ABC):
    """The weights of one optimizer, made by ``keep_weights``.

    Gradients of 16-bit parameters have 16 bits as autograd gives them, until a second backward pass adds to them or
    ``apply`` multiplies them: then they are fp32.

    Attributes:
        optimizer: of any class.
        seed: of stochastic rounding.
        applied: steps that were applied; together with ``seed`` all that the draws depend on. Whoever continues a run
            sets both.
    """

    def __init__(self, optimizer: Optimizer, seed: int) -> None:
        self.optimizer, self.seed, self.applied = optimizer, seed, 0
        self._wide = WideGradients()

    @abstractmethod
    def parameters(self) -> list[Parameter]:
        """The model's own parameters, in the order of the groups; never masters."""

    def begin_backward(self) -> None:
        """To be called before a backward pass: 16-bit gradients that are there become fp32, so that sums are fp32."""
        self._wide.widen()

    def gradients(self) -> dict[Parameter, Tensor]:
        """The gradients that are there, by the model's parameter: of any dtype, dense or sparse."""
        return {p: grad for p in self.parameters() if (grad := p.grad) is not None}

    @abstractmethod
    def apply(self, factor: float) -> None:
        """Multiply the gradients by ``factor``, take one optimizer step and write the model's weights.

        Each product is rounded once, to fp32 (of fp64 gradients, to fp64). What the gradients hold afterwards is
        not said.
        """

    @abstractmethod
    def make_state(self) -> None:
        """Make what the first step would make, of parameters without values (fake tensors) that have gradients.

        Nothing is computed; where the optimizer is not this package's, its own step runs.
        """

    def refuse_other_steps(self) -> None:
        """Let ``optimizer.step()`` that somebody else calls be refused until ``restore``, where it would do nothing.

        The refusal is a ``RuntimeError``.
        """
        return

    def clear_gradients(self, *, set_to_none: bool = True) -> None:
        """``optimizer.zero_grad()`` that reaches the model's parameters too."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @abstractmethod
    def adopt_writes(self) -> list[Parameter]:
        """Take over what was written to the weights from outside since the last step (a checkpoint was loaded).

        What is kept of an element beside its weight stays where it still rounds to that weight.

        Returns:
            The parameters of which something else is kept now.
        """

    def write_back(self) -> None:
        """Write the model's 16-bit weights from their masters; what was written to them from outside is undone.

        Under the other ways the weight itself is a part of what is kept, and there is nothing to write.
        """
        for param, extras in self.extras().items():
            if "master" in extras:
                self.load_full_weight(param, extras["master"])

    @abstractmethod
    def full_weight(self, param: Parameter) -> Tensor:
        """The value that the next update starts from, fresh: fp32, or the parameter's own dtype where that is wider."""

    @abstractmethod
    def load_full_weight(self, param: Parameter, value: Tensor) -> None:
        """Keep a value; exact for fp32 parameters, masters and split weights."""

    @abstractmethod
    def extras(self) -> dict[Parameter, dict[str, Tensor]]:
        """What is kept beside weights and moments: ``master``, ``remainder`` or ``compensation``; references."""

    @abstractmethod
    def load_extras(self, param: Parameter, extras: Mapping[str, Tensor]) -> None:
        """Continue from saved extras of a parameter whose weight is, or will be, loaded by itself.

        Raises:
            ValueError: extras of another way to keep it, or of another shape.
        """

    @abstractmethod
    def moments(self) -> dict[Parameter, dict[str, Tensor]]:
        """Tensors of the optimizer's state that are neither extras nor step counters; references."""

    @abstractmethod
    def restore(self) -> None:
        """Give the optimizer back as it works without a session."""
