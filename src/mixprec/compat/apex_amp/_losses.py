"""The losses of one ``initialize``, each with its own scale; what the prepared optimizers share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from ...loss_scaling import ScaleState, after_step, scale_text
from ...specs import LossScale
from ._options import Properties

_LOG = logging.getLogger("mixprec")


@dataclass(eq=False)
class Loss:
    """One loss and its scale.

    Attributes:
        number: its ``loss_id``.
        rule: how its scale changes.
        is_told: whether skipped steps are logged.
        state: scale, and applied steps since its last change.
    """

    number: int
    rule: LossScale
    is_told: bool
    state: ScaleState = field(init=False)

    def __post_init__(self) -> None:
        self.state = ScaleState(self.rule.initial)
        self._found: bool | None = None

    def note(self, has_overflowed: bool) -> None:
        """What a backward pass has found; ``settle`` acts on it."""
        self._found = has_overflowed or bool(self._found)

    def settle(self) -> None:
        """Change the scale by what was found since the last time."""
        if self._found is None:
            return
        before, found, self._found = self.state, self._found, None
        self.state, events = after_step(self.rule, before, not found)
        messages = [event.message for event in events]
        if found:
            change = f"{scale_text(before.scale)} -> {scale_text(self.state.scale)}"
            messages.insert(0, f"a gradient is not finite; the step is skipped, loss scale {change}")
        for message in messages if self.is_told else ():
            _LOG.warning("apex_amp, loss %d: %s", self.number, message)


@dataclass(eq=False)
class Amp:
    """What one ``initialize`` has made of its losses.

    Attributes:
        properties: of the level.
        losses: by ``loss_id``.
    """

    properties: Properties | None
    losses: list[Loss]

    @property
    def is_enabled(self) -> bool:
        """Whether there is anything to do."""
        return self.properties is not None

    def loss(self, loss_id: Any) -> Loss:
        """The loss of a number.

        Raises:
            ValueError: there is none.
        """
        if isinstance(loss_id, bool) or not isinstance(loss_id, int) or not 0 <= loss_id < len(self.losses):
            raise ValueError(
                f"scale_loss: loss_id is {loss_id!r}, expected a number below {len(self.losses)}: say num_losses when "
                "you call initialize"
            )
        return self.losses[loss_id]
