"""What a step would need to be run again: what the model was called with, and from where gradients came back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch's own; knows the output classes that libraries register

from .._finding import Finding
from .._random_states import random_states
from .._step_watch import StepFacts


@dataclass
class MicroBatch:
    """One forward pass in training mode.

    Attributes:
        args: positional arguments, by reference.
        kwargs: those by name.
        versions: of the tensors among them then.
        random: random states then.
        autocast: device type and dtype of each autocast region that it ran in.
        gradients: that came back to the outputs, by their position among the tensors of the output.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: tuple[int, ...]
    random: dict[str, Any]
    autocast: tuple[tuple[str, torch.dtype], ...]
    gradients: dict[int, Tensor] = field(default_factory=dict[int, Tensor])

    @property
    def tensors(self) -> list[Tensor]:
        """Those among the arguments."""
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    @contextmanager
    def region(self) -> Generator[None]:
        """The autocast regions that it ran in; none else."""
        with ExitStack() as stack:
            for kind in _autocast_kinds():
                stack.enter_context(torch.autocast(kind, enabled=False))
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield

    @property
    def is_unchanged(self) -> bool:
        """Whether no argument was written to since."""
        return self.versions == tuple(_version(t) for t in self.tensors)


class StepRecording:
    """Keeps, for every micro-batch since the last applied step, references to what the model was called with.

    No tensor is copied but random states: a pre-hook on the root takes the arguments, a hook on it the gradients of its
    outputs. Inside compiled code nothing is recorded. A ``StepWatch``.

    Args:
        model: the root.
        limit: micro-batches that are kept; beyond it the step cannot be run again.

    Attributes:
        batches: those of the running step.
        is_whole: whether all of them are.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> recording = StepRecording(model)
        >>> model(torch.ones(4, 2)).sum().backward()
        >>> len(recording.batches), recording.batches[0].gradients[0].shape
        (1, torch.Size([4, 1]))
        >>> recording.close()
    """

    def __init__(self, model: nn.Module, limit: int = 256) -> None:
        self.model, self.limit = model, limit
        self.batches: list[MicroBatch] = []
        self.is_whole = True
        self._depth = 0
        self._handles = [
            model.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True),
            model.register_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth += 1
        if self._depth > 1 or not torch.is_grad_enabled():
            return
        if len(self.batches) >= self.limit:
            self.is_whole = False
            return
        batch = MicroBatch(args, kwargs, (), random_states(), _autocast_now())
        batch.versions = tuple(_version(t) for t in batch.tensors)
        self.batches.append(batch)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth = max(self._depth - 1, 0)
        if self._depth or not torch.is_grad_enabled() or not self.batches or not self.is_whole:
            return
        batch = self.batches[-1]
        for place, leaf in enumerate(output_tensors(output)):
            if leaf.requires_grad:
                leaf.register_hook(_keeper(batch, place))

    def forget(self) -> None:
        """The step is over."""
        self.batches, self.is_whole = [], True

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """Nothing to do: hooks take what is needed."""

    def end_backward(self) -> None:
        """Nothing to do."""

    def before_update(self, facts: StepFacts) -> None:
        """The step was good: nothing will be run again."""
        self.forget()

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Nothing was found."""
        return ()

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Whoever runs the step again has done so."""
        self.forget()
        return ()

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""
        self.forget()

    def failed(self, error: BaseException) -> None:
        """The step is lost."""
        self.forget()

    def close(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self.forget()


def output_tensors(output: Any) -> list[Tensor]:
    """The tensors of a model's output, in the order of its parts."""
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]


def _keeper(batch: MicroBatch, place: int) -> Callable[[Tensor], None]:
    def keep(gradient: Tensor) -> None:
        # Once for each backward pass: several losses of one output add up.
        before = batch.gradients.get(place)
        batch.gradients[place] = gradient if before is None else before + gradient

    return keep


def _autocast_kinds() -> tuple[str, ...]:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


def _autocast_now() -> tuple[tuple[str, torch.dtype], ...]:
    kinds = _autocast_kinds()
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind))


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
