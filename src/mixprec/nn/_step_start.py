"""Where a step began, for one that is discarded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ._site import ConversionState


@dataclass(frozen=True)
class StepStart:
    """The random bits' position and the amax histories at the beginning of a step."""

    random: Tensor
    histories: Mapping[str, Tensor]

    @classmethod
    def of(cls, state: ConversionState) -> StepStart:
        """As they are now."""
        return cls(state.random.clone(), {name: history.clone() for name, history in state.histories.items()})

    def restore(self, state: ConversionState) -> None:
        """Bring them back."""
        state.random.copy_(self.random)
        for name, history in self.histories.items():
            state.histories[name].copy_(history)
