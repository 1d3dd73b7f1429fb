"""What a piece of a loop calls ``backward`` on, seen from the operations that it runs."""

from __future__ import annotations

from torch import Tensor

from ...nn import is_in_backward

#: Torch begins the backward pass of a loss with this, of the loss itself.
_BEGINNING = "ones_like"


class Backpropagated:
    """The tensors that backward passes began at; to be told of every operation before it runs.

    Attributes:
        roots: of the passes so far, without those inside of another one (a checkpoint's).
        passes: how many backward passes have begun, those from gradients that were given too.
    """

    def __init__(self) -> None:
        self.roots: list[Tensor] = []
        self._beginning: list[Tensor] = []
        self._was_inside, self.passes = False, 0

    def note(self, name: str, tensors: list[Tensor]) -> None:
        """An operation of this name is about to read these."""
        is_inside = is_in_backward()
        if is_inside and not self._was_inside:
            self.passes += 1
            self.roots += self._beginning
        if is_inside or name != _BEGINNING:
            self._beginning = []
        else:
            self._beginning += [x.detach() for x in tensors]
        self._was_inside = is_inside
