"""The part of a session that looks for the first bad value of a step that is run for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

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
    _is_locating: bool = False
    _scales: LossScales

    def locate(self, compute_loss: Callable[[], Tensor | None], name: str = DEFAULT) -> Fault | None:
        """Run a forward and a backward pass, watched operation by operation, and tell the first bad value in it.

        Sees inside the loss too, which a replay of a skipped step does not. Nothing is changed: gradients, buffers,
        random states and offsets of casts are afterwards as they were.

        Args:
            compute_loss: calls the model and gives the loss, e.g. ``lambda: loss_fn(model(x), y)``. Where it calls
                ``backward`` itself, that pass is looked at, and no scale is applied.
            name: of the loss, by whose scale it is multiplied.

        Returns:
            The first fault; ``None`` where the loss and all gradients are finite, and no cast hides an infinity.

        Raises:
            TypeError, ValueError: ``compute_loss`` is no function, what it gives is no loss, or it steps the session.
        """
        self._refuse_unusable("locate")
        scale = self._scales.scale(name)

        if not callable(cast("object", compute_loss)):
            raise TypeError(
                f"locate: compute_loss is a {type(compute_loss).__name__}, expected a function without arguments that "
                "gives the loss, e.g. lambda: loss_fn(model(x), y)"
            )
        used: list[float | None] = [scale]

        def run() -> Tensor | None:
            loss = compute_loss()
            if any(p.grad is not None for p in self.model.parameters()):
                used[0] = None  # it ran its own backward pass, by a scale of its own
                return loss
            if loss is None:
                raise TypeError(
                    "locate: compute_loss has given None and run no backward pass, expected the loss (before .item()), "
                    "or a function that calls loss.backward()"
                )
            check_loss(loss)
            with self._conversion.region():
                scaled_loss(loss, scale).backward()  # pyright: ignore[reportUnknownMemberType]
            return loss

        self._is_locating = True
        try:
            return locate(self.model, run, step=self.applied, scale=lambda: used[0], conversion=self._conversion)
        finally:
            self._is_locating = False

    def _refuse_unusable(self, what: str) -> None:
        if self._is_locating:
            raise ValueError(
                f"{what}: session.locate runs a step that leaves no trace; inside it call loss.backward(), or "
                "give the loss"
            )
        super()._refuse_unusable(what)
