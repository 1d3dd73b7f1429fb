"""What is in flight and has to go: cleared gradients, and those of a backward pass or a step that raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..optim import KeptWeights
from ._applying import Applier
from ._in_flight import InFlight
from ._result import Event
from ._scales import LossScales
from ._windows import Windows

_UNTOUCHED = "backward raised {} before it reached a gradient: those that were there stay as they were"


@dataclass(frozen=True, kw_only=True)
class Dropper:
    """Drops what was backpropagated and not stepped, with what it has used up and changed.

    Attributes:
        kept: all optimizers of the session.
        windows: what is in their gradients.
        scales: of the losses.
        in_flight: whether a forward pass has begun whose backward pass is still to come.
        applier: knows what a skipped step gives back, and the gradients.
    """

    kept: Mapping[str, KeptWeights]
    windows: Windows
    scales: LossScales
    in_flight: InFlight
    applier: Applier

    def drop(self) -> None:
        """Clear all gradients, as if they had never been, but where a forward pass is in flight."""
        if self.windows.has_losses() and self.in_flight.is_nothing():
            self.applier.conversion.discard_step()
            self.applier.statistics.give_back()
        self.scales.forget_round()
        self.windows.clear_gradients(self.kept)

    def forget(self) -> None:
        """Clear all gradients; the state that they would have changed is replaced."""
        self.applier.statistics.forget()
        self.scales.forget_round()
        self.windows.clear_gradients(self.kept)

    def fail(self, what: str, chosen: Iterable[str], error: BaseException, step: int) -> list[Event]:
        """A backward pass or a step of these optimizers raised: nothing of it may be added to.

        Nobody can tell which gradients such a pass has reached, so that all of a window go, earlier losses' too.
        Where it has reached none (a graph that is used up), they stay.

        Args:
            what: ``"backward"`` or ``"step"``.
            chosen: optimizers that it was for.
            error: that is on its way to the caller.
            step: applied steps so far.
        """
        if what == "backward" and self.applier.gradients.are_untouched:
            self.scales.forget_new(self.windows.names)
            return [Event(step=step, name="backward failed", message=_UNTOUCHED.format(type(error).__name__))]
        names = list(chosen)
        earlier = len({id(loss) for name in names for _, loss in self.windows[name].losses})
        self.windows.clear_gradients(names)
        self.scales.forget_new(self.windows.names)
        lost: list[Event] = []
        if not self.windows.has_losses():
            lost = self.applier.skip(step)
            self.in_flight.end_step()
        if what == "step":
            self.applier.conversion.commit_step()  # an optimizer may have changed weights before it raised
        self.in_flight.end_backward(retains=False)
        return [Event(step=step, name=f"{what} failed", message=_message(what, error, earlier)), *lost]


def _message(what: str, error: BaseException, earlier: int) -> str:
    text = f"{what} raised {type(error).__name__}: its gradients are cleared, the next step begins without them"
    if what == "backward" and earlier:
        losses = "1 earlier loss that was" if earlier == 1 else f"{earlier} earlier losses that were"
        return f"{text}; so are those of {losses} backpropagated for the same step: run them again"
    return f"{text}; what the optimizer had changed by then stays" if what == "step" else text
