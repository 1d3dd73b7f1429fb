"""What a step began with, kept until it is applied: enough to run its passes again."""

# Buffers are walked in every pass: the modules' own tables are ten times faster than their iterators.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase  # what all such layers share
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from ...nn import Conversion, conversion_of, is_in_backward
from .._finding import Finding
from .._model_hooks import ModelHook, called_modules
from .._random_states import random_states
from .._step_watch import QuietWatch, StepFacts
from ._range import tensor_leaves

#: Forward passes that are remembered of one step.
_REMEMBERED = 256
#: Elements up to which a buffer is copied that nothing was seen to change.
_LARGE = 2**20


@dataclass(frozen=True)
class KeptBuffer:
    """A buffer as it was: its values, or (of a large one) its version alone."""

    tensor: Tensor
    version: int
    copy: Tensor | None


@dataclass(eq=False)
class MicroBatch:
    """One forward pass, and the gradients that came back to its outputs.

    Attributes:
        module: that was called: the model, or a part of one that is only a container.
        args: of the call, the caller's own tensors.
        kwargs: likewise.
        versions: of the tensors in them.
        states: random states.
        autocast: whether autocast was on, and its dtype, on the model's kind of device.
        casts: random state and histories of the conversion; ``None`` without one.
        buffers: by module and name.
        gradients: of each output tensor, by its place among them, for each backward pass.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: list[tuple[Tensor, int]]
    states: dict[str, Any]
    autocast: tuple[str, bool, torch.dtype]
    casts: tuple[Tensor, dict[str, Tensor]] | None
    buffers: Mapping[tuple[str, str], KeptBuffer]
    gradients: dict[int, dict[int, tuple[Tensor, int]]] = field(default_factory=lambda: {})

    def changed(self) -> str:
        """What of it is not as it was, in words; empty where all is."""
        if any(x._version != version for x, version in self.versions):
            return "an argument of the model was changed in place after the call"
        for gradients in self.gradients.values():
            if any(gradient._version != version for gradient, version in gradients.values()):
                return "the gradient of an output was changed in place"
        for (path, name), kept in self.buffers.items():
            if kept.copy is None and kept.tensor._version != kept.version:
                return f"buffer {'.'.join(filter(None, (path, name)))} is large, and was changed since"
        return ""


class StepRecording(QuietWatch):
    """Keeps what the passes of a step began with, from the last applied step on; a ``StepWatch``.

    Costs references, not copies, but for buffers that a pass changes and random states (5 KB). The gradient of each
    output is kept until the step ends.

    Args:
        model: the root; hooks on it see its calls (of a container without a forward pass, those of its parts).
        conversion: of the model, or ``None``: found, if it has one.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> recording = StepRecording(model)
        >>> model(torch.ones(4, 2)).sum().backward()
        >>> len(recording.passes)
        1
        >>> recording.close()
    """

    def __init__(self, model: nn.Module, conversion: Conversion | None = None) -> None:
        self.model = model
        self.conversion = conversion_of(model) if conversion is None else conversion
        self.passes: deque[MicroBatch] = deque(maxlen=_REMEMBERED)
        self.forgotten = self.compiled = 0
        self._is_over = False
        self._copies: dict[tuple[str, str], KeptBuffer] = {}
        self._running: list[MicroBatch | None] = []
        self._handles: list[RemovableHandle] = []
        for called in called_modules(model):
            self._handles += [
                called.register_forward_pre_hook(ModelHook(self._begin), prepend=True, with_kwargs=True),
                called.register_forward_hook(ModelHook(self._end), always_call=True),
            ]

    def states_of(self, args: tuple[Any, ...]) -> dict[str, Any] | None:
        """The random states that the running pass began with, if it is the one with these arguments."""
        return self.passes[-1].states if self.passes and self.passes[-1].args is args else None

    def forget(self) -> None:
        """The step is over."""
        self.passes.clear()
        self.forgotten = self.compiled = 0
        self._is_over = False

    def end(self) -> None:
        """The step is over, but another optimizer may step by its passes: the next pass lets go of them."""
        self._is_over = True

    def close(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self.forget()
        self._copies.clear()

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step was applied: its passes are forgotten."""
        self.forget()
        return ()

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The step was skipped: its passes are forgotten."""
        self.forget()
        return ()

    def dropped(self) -> None:
        """Its passes are forgotten."""
        self.forget()

    def failed(self, error: BaseException) -> None:
        """Its passes are forgotten."""
        self.forget()

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():
            return
        if not torch.is_grad_enabled() or is_in_backward():
            self._running.append(None)
            return
        if self._is_over:
            self.forget()
        if len(self.passes) == _REMEMBERED:
            self.forgotten += 1
        conversion = self.conversion
        device = next((p.device.type for p in self.model.parameters()), "cpu")
        batch = MicroBatch(
            module=module,
            args=args,
            kwargs=dict(kwargs),
            versions=[(x, x._version) for x in pytree.tree_leaves((args, kwargs)) if _has_version(x)],
            states=random_states(),
            autocast=(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)),
            casts=None if conversion is None else (conversion.random_state(), conversion.histories()),
            buffers=dict(self._keep_buffers()),
        )
        self.passes.append(batch)
        self._running.append(batch)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not self._running:
            return
        batch = self._running.pop()
        if batch is None:
            return
        for i, x in enumerate(tensor_leaves(output)):
            if x.requires_grad:
                x.register_hook(_Gradients(batch, i))

    def _keep_buffers(self) -> Mapping[tuple[str, str], KeptBuffer]:
        """Copies of buffers, taken anew only of those that may have changed."""
        kept: dict[tuple[str, str], KeptBuffer] = {}
        for path, module in self.model.named_modules():
            # Torch's own updates of running statistics count as no write.
            changes = isinstance(module, _NormBase) and bool(module.track_running_stats)
            for name, buffer in module._buffers.items():
                if buffer is None or buffer.layout != torch.strided:
                    continue
                known = self._copies.get((path, name))
                if changes or known is None or known.tensor is not buffer or known.version != buffer._version:
                    copies = changes or buffer.numel() <= _LARGE or known is not None
                    known = KeptBuffer(buffer, buffer._version, buffer.detach().clone() if copies else None)
                    self._copies[path, name] = known
                kept[path, name] = known
        return kept


class _Gradients:
    """The hook on one output of a pass."""

    def __init__(self, batch: MicroBatch, index: int) -> None:
        self._batch, self._index = batch, index

    def __call__(self, gradient: Tensor) -> None:
        task = torch._C._current_graph_task_id()  # no public spelling
        self._batch.gradients.setdefault(task, {})[self._index] = (gradient, gradient._version)


def _has_version(x: object) -> bool:
    return isinstance(x, Tensor) and not x.is_inference()
