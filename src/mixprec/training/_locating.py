"""The part of a session that looks for the first bad value of a step that is run for it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..monitor import Fault, locate
from ..nn import Conversion
from ._checks import check_loss
from ._resumable import Resumable
from ._scaled_gradients import scaled_loss
from ._scales import DEFAULT, LossScales


class Locating(Resumable):
    """A session that can run a step watched; ``Session`` is made of it."""

    _conversion: Conversion
    _scales: LossScales

    def locate(self, compute_loss: Callable[[], Tensor], name: str = DEFAULT) -> Fault | None:
        """Run a forward and a backward pass, watched operation by operation, and tell the first bad value in it.

        Sees inside the loss too, which a replay of a skipped step does not. Nothing is changed: gradients, buffers,
        random states and offsets of casts are afterwards as they were.

        Args:
            compute_loss: calls the model and gives the loss, e.g. ``lambda: loss_fn(model(x), y)``.
            name: of the loss, by whose scale it is multiplied.

        Returns:
            The first fault; ``None`` where the loss and all gradients are finite, and no cast hides an infinity.

        Raises:
            TypeError, ValueError: what ``compute_loss`` gives is no loss.
        """
        self._refuse_unusable("locate")
        scale = self._scales.scale(name)

        def run() -> Tensor:
            loss = compute_loss()
            check_loss(loss)
            with self._conversion.region():
                scaled_loss(loss, scale).backward()  # pyright: ignore[reportUnknownMemberType]
            return loss

        return locate(self.model, run, step=self.applied, scale=scale, conversion=self._conversion)
