"""What a detector is, and what it is told at the end of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ....nn import Audit
from ..._finding import Finding
from .._call import Call
from .._setting import Setting


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that is over.

    Attributes:
        loss: that the step returned.
        gradients: of the parameters, by name, still multiplied by the loss scale.
        buffers: by name: what each was before, and what it is now.
        written: names of those that something was written to.
        compute: the 16-bit dtype of the recipe, or that was seen; ``None``: neither.
        audit: of its GEMMs, where the model is converted.
        fp16_amax: largest magnitude of an fp16 gradient in the backward pass, the loss scale in it.
        fp16_overflows: whether one was not finite.
        flushed: by the parameter's name: gradients that fp16 made zero at this loss scale and that a larger one keeps,
            and how many that keeps.
        larger: that scale.
    """

    loss: Tensor
    gradients: Mapping[str, Tensor]
    buffers: Mapping[str, tuple[Tensor, Tensor]]
    written: frozenset[str]
    compute: torch.dtype | None
    audit: Audit | None = None
    fp16_amax: float = 0.0
    fp16_overflows: bool = False
    flushed: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    larger: float = 1.0

    @property
    def is_finite(self) -> bool:
        """Whether the loss and all gradients are."""
        return all(bool(torch.isfinite(t).all()) for t in (self.loss, *self.gradients.values()))


class Detector:
    """Looks for one kind of trouble.

    Attributes:
        operations: names of those that it is asked about; ``None``: all.
    """

    operations: frozenset[str] | None = frozenset()

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def see(self, call: Call) -> Iterable[Finding]:
        """What one operation shows."""
        return ()

    def end(self, step: Step) -> Iterable[Finding]:
        """What the whole step shows."""
        return ()
