"""The losses of one ``initialize``, each with its own scale; what the prepared optimizers share."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch.distributed as dist

from ...distributed import Opinion, ranks_of
from ...loss_scaling import ScaleState, after_step, scale_text
from ...specs import LossScale
from ._buffers import Buffers
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
            change = scale_text(before.scale)
            change += f" -> {scale_text(self.state.scale)}" if self.rule.kind == "dynamic" else " stays"
            messages.insert(0, f"a gradient is not finite; the step is skipped, loss scale {change}")
        for message in messages if self.is_told else ():
            _LOG.warning("apex_amp, loss %d: %s", self.number, message)


@dataclass(eq=False)
class Amp:
    """What one ``initialize`` has made of its losses.

    Attributes:
        properties: of the level.
        losses: by ``loss_id``.
        process_group: the ranks that skip together.
        members: what its optimizers carry; they may be gone.
        buffers: of its models.
        is_open: whether a ``scale_loss`` has begun and not ended.
    """

    properties: Properties | None
    losses: list[Loss]
    process_group: dist.ProcessGroup | Literal["default"] | None = "default"
    members: list[weakref.ref[Any]] = field(default_factory=list)
    buffers: Buffers = field(default_factory=Buffers)
    is_open: bool = False

    @property
    def is_enabled(self) -> bool:
        """Whether there is anything to do."""
        return self.properties is not None

    @property
    def is_told(self) -> bool:
        """Whether what happens is logged."""
        return any(loss.is_told for loss in self.losses)

    def tell(self, message: str) -> None:
        """Log a line, unless ``verbosity`` is 0."""
        if self.is_told:
            _LOG.warning("apex_amp: %s", message)

    def agree(self, found: Mapping[str, bool]) -> frozenset[str]:
        """Of what gradients are not finite, on any rank.

        Args:
            found: by a name that all ranks have alike: whether this rank's are not.
        """
        bad = frozenset(name for name, is_bad in found.items() if is_bad)
        opinion = Opinion(is_finite=not bad, norm=0.0, has_gradients=(), losses=tuple(found), at_fault=bad)
        agreed = ranks_of(self.process_group).agree(opinion, compares_norms=False)
        if len(found) > 1:
            return agreed.at_fault
        return frozenset() if agreed.is_finite else frozenset(found)

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
