"""The part of a session that shows what it is and does now."""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from ..loss_scaling import ScaleState
from ..monitor import Finding
from ..nn import Audit
from ._guardable import Guardable
from ._memory import Memory
from ._memory_count import MemoryCounter
from ._optimizers import the_only
from ._scales import DEFAULT
from ._watching import Unwatched


class Viewable(Guardable):
    """``Session`` is made of it."""

    _memory: MemoryCounter
    _watching: Unwatched

    @property
    def optimizer(self) -> Optimizer:
        """The only one; with several, ``optimizers`` has them."""
        return the_only(self.optimizers)

    @property
    def loss_scale(self) -> float:
        """What the next loss without a name is multiplied by."""
        return self._scales.scale(DEFAULT)

    @property
    def loss_scales(self) -> dict[str, float]:
        """What the next loss of each name is multiplied by."""
        return {name: self._scales.scale(name) for name in self._scales.names}

    @property
    def loss_scale_state(self) -> ScaleState:
        """Scale and counters of the loss without a name."""
        return self._scales.state(DEFAULT)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What watchers have found: the last 1,000, oldest first; each is an event too."""
        return tuple(self._watching.findings)

    def full_weight(self, name: str) -> Tensor:
        """The value that the next update of a parameter starts from: the master, or the weight and what it lacks.

        Args:
            name: of the parameter, as the model's ``named_parameters()`` has it.

        Returns:
            A fresh tensor: fp32, or the parameter's own dtype where that is wider.

        Raises:
            ValueError: no parameter has that name.
            RuntimeError: an average is in the model now.
        """
        self._refuse_unusable("full_weight")
        self._tell(self._values.adopt_writes(self._kept, self.applied))
        return self._values.named(name)

    def audit(self) -> Audit:
        """Format and engine of every GEMM, measured in the first step of the run and of each later phase.

        ``from_step`` tells which step that was; a note, where a phase has begun and was not measured yet.
        """
        return self._phases.audit()

    def memory(self) -> Memory:
        """Bytes by kind, measured: what is there now, and what the step of the ``audit`` held at its fullest."""
        return self._memory.count()

    def measure_next_step(self) -> None:
        """Measure ``audit`` and ``memory`` anew in the next training step."""
        self._phases.measure_next_step(self.applied)
