"""The passes of a step once more: from the same arguments, random states and buffers, and the same gradients."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .._aside import everything_aside
from .._random_states import load_random_states
from ._known import KnownTensors
from ._range import is_finite, is_measured, tensor_leaves
from ._recording import MicroBatch, StepRecording
from ._sites import named_root
from ._watch import FaultWatch


@dataclass(frozen=True)
class Seen:
    """What one replayed pass has shown.

    Attributes:
        watch: what the operations did.
        batch: that was replayed.
        outputs: of the model, again.
        bad: gradients of parameters that are not finite.
    """

    watch: FaultWatch
    batch: MicroBatch
    outputs: Sequence[Tensor]
    bad: Sequence[Tensor]


class Replay:
    """Runs the recorded passes of a step again; afterwards everything is as it was.

    Args:
        recording: of the step.
    """

    def __init__(self, recording: StepRecording) -> None:
        self._model, self._conversion = recording.model, recording.conversion
        self._passes = [batch for batch in recording.passes if batch.gradients]

    @property
    def passes(self) -> Sequence[MicroBatch]:
        """Those that gradients came back to."""
        return self._passes

    def watched(self, batch: MicroBatch) -> Seen:
        """One pass again, and every operation of it seen."""
        named = named_root(self._model, self._conversion)
        known = KnownTensors(named)
        known.add_arguments(batch.args, batch.kwargs)
        for gradients in batch.gradients.values():
            for i, (gradient, _) in gradients.items():
                known.add_gradient(gradient, i)
        watch = FaultWatch(named, self._conversion, known, is_whole=True, may_talk=False)
        outputs, bad = self._run(batch, watch, 1.0, known)
        return Seen(watch, batch, outputs, bad)

    def is_finite_at(self, batch: MicroBatch, divisor: float) -> bool:
        """Whether all gradients of a pass are finite, were those of its outputs smaller."""
        return not self._run(batch, nullcontext(), divisor, None)[1]

    def _run(
        self, batch: MicroBatch, watch: AbstractContextManager[Any], divisor: float, known: KnownTensors | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        buffers = {key: kept.copy for key, kept in batch.buffers.items() if kept.copy is not None}
        with everything_aside(self._model, self._conversion, batch.casts, buffers):
            if known is not None:
                known.add_buffers(named_root(self._model, self._conversion))
            load_random_states(batch.states)
            with watch:
                outputs = self._forward(batch)
                gradients = self._backward(batch, outputs, divisor)
            bad = [x for x in map(_values, gradients) if is_measured(x) and not is_finite(x)]
            return [x.detach() for x in outputs], bad

    def _forward(self, batch: MicroBatch) -> list[Tensor]:
        args, kwargs = pytree.tree_map(_detached, (batch.args, batch.kwargs))
        device, enabled, dtype = batch.autocast
        with torch.enable_grad(), torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False):
            return tensor_leaves(batch.module(*args, **kwargs))

    def _backward(self, batch: MicroBatch, outputs: list[Tensor], divisor: float) -> list[Tensor]:
        """Gradients of the parameters; beside other ranks without running hooks that wait for a gradient (DDP's)."""
        parameters = [p for p in self._model.parameters() if p.requires_grad]
        found: list[Tensor] = []
        with ExitStack() as stack:
            if self._conversion is not None:
                stack.enter_context(self._conversion.region())
            for gradients in batch.gradients.values():
                roots = [i for i in gradients if i < len(outputs) and outputs[i].requires_grad]
                values = [gradients[i][0] if divisor == 1.0 else gradients[i][0] / divisor for i in roots]
                again = len(batch.gradients) > 1
                if not has_other_ranks():
                    torch.autograd.backward([outputs[i] for i in roots], values, retain_graph=again)
                    continue
                gradients = torch.autograd.grad(
                    [outputs[i] for i in roots], parameters, values, retain_graph=again, allow_unused=True
                )
                found += [gradient for gradient in cast("tuple[Tensor | None, ...]", gradients) if gradient is not None]
        return found + [p.grad for p in parameters if p.grad is not None]


@torch.no_grad()
def _detached(value: object) -> object:
    """An argument without the graph that made it; one that a gradient was wanted of still is."""
    if not isinstance(value, Tensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)


def _values(gradient: Tensor) -> Tensor:
    """The elements of a gradient; of a sparse one those that its backward pass gave."""
    return gradient._values() if gradient.layout == torch.sparse_coo else gradient


def has_other_ranks() -> bool:
    """Whether this process trains beside others: their hooks on gradients (DDP's) would wait for all of them."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_sharded(model: nn.Module) -> bool:
    """Whether passes of the model talk to other ranks, which would have to replay too."""
    return any(type(p).__name__ == "DTensor" or hasattr(p, "_local_tensor") for p in model.parameters())
