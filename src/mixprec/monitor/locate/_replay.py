"""A step run again, and everything left as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...nn import Conversion
from .._aside import everything_aside
from .._random_states import load_random_states
from ._recording import MicroBatch, StepRecording, output_tensors
from ._values import is_finite


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What came of a step that was run again.

    Attributes:
        gradients: of the model's parameters, by name.
        bad_outputs: outputs that were not finite, with the micro-batch that they are of.
        bad_gradients: whether what came back to an output was not finite, by the micro-batch: the output, the gradient.
    """

    gradients: dict[str, Tensor]
    bad_outputs: tuple[tuple[int, Tensor], ...]
    bad_gradients: tuple[tuple[int, Tensor, Tensor], ...]

    @property
    def is_finite(self) -> bool:
        """Whether outputs and gradients all are."""
        return not self.bad_outputs and not self.bad_gradients and all(map(is_finite, self.gradients.values()))


def replay(
    recording: StepRecording,
    conversion: Conversion | None,
    *,
    factor: float = 1.0,
    watched: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Replayed:
    """Run the recorded micro-batches again, forward and backward from the gradients of their outputs.

    Args:
        recording: what to run.
        conversion: of the model, if it is converted.
        factor: what the gradients are multiplied by.
        watched: a context for the passes.
    """
    model, bad_outputs, bad_gradients = recording.model, list[tuple[int, Tensor]](), list[Any]()
    with everything_aside(model, conversion):
        if conversion is not None:
            conversion.discard_step()  # a copy's: the step begins where it began
        with watched():
            for number, batch in enumerate(recording.batches):
                outputs = _forward(model, batch)
                bad_outputs += [(number, o) for o in outputs if not is_finite(o)]
                pairs = [(outputs[i], g) for i, g in sorted(batch.gradients.items()) if i < len(outputs)]
                bad_gradients += [(number, o, g) for o, g in pairs if not is_finite(g)]
                _backward(pairs, factor, conversion)
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return Replayed(gradients=gradients, bad_outputs=tuple(bad_outputs), bad_gradients=tuple(bad_gradients))


def _forward(model: nn.Module, batch: MicroBatch) -> list[Tensor]:
    load_random_states(batch.random)
    with torch.enable_grad(), batch.region():
        return output_tensors(model(*batch.args, **batch.kwargs))


def _backward(pairs: Sequence[tuple[Tensor, Tensor]], factor: float, conversion: Conversion | None) -> None:
    known = [(output, gradient * factor if factor != 1.0 else gradient) for output, gradient in pairs]
    known = [(output, gradient) for output, gradient in known if output.requires_grad]
    if not known:
        return
    with conversion.region() if conversion is not None else nullcontext():
        torch.autograd.backward([output for output, _ in known], [gradient for _, gradient in known])
