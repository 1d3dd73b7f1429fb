"""What is in the gradients of each optimizer since they were last cleared: which losses, and whose fault it was."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import Parameter

from ..optim import KeptWeights


@dataclass(eq=False)
class Window:
    """The gradients of one optimizer, from one clearing to the next.

    Attributes:
        losses: name and value of each loss that was backpropagated into them.
        last: name of the last one, whose part is not told apart yet.
        bad: parameters whose gradient was not finite when it was last looked at.
        at_fault: losses whose part was not finite.
        is_spent: whether a step was skipped with them: nothing may be added, the next backward pass clears them.
    """

    losses: list[tuple[str, Tensor]] = field(default_factory=list[tuple[str, Tensor]])
    last: str = ""
    bad: set[Parameter] = field(default_factory=set[Parameter])
    at_fault: set[str] = field(default_factory=set[str])
    is_spent: bool = False
    _seen: dict[Parameter, tuple[Tensor, int]] = field(default_factory=dict[Parameter, tuple[Tensor, int]])

    @property
    def names(self) -> frozenset[str]:
        """Of the losses in them."""
        return frozenset(name for name, _ in self.losses)

    def needs_check(self, name: str) -> bool:
        """Whether another loss is to be added to what nobody has looked at."""
        return bool(self.last) and self.last != name

    def add(self, name: str, loss: Tensor) -> None:
        """A loss was backpropagated into them."""
        self.losses.append((name, loss.detach()))
        self.last = name

    def blame(self, bad: Iterable[Parameter], otherwise: str) -> None:
        """Parameters are not finite: what was finite before is the fault of the last loss."""
        found = set(bad)
        if found - self.bad:
            self.at_fault.add(self.last or otherwise)
        self.bad |= found

    def see(self, kept: KeptWeights) -> None:
        """Remember the gradients as the session leaves them."""
        self._seen = {p: (p.grad, p.grad._version) for p in kept.parameters() if p.grad is not None}

    def was_cleared(self) -> bool:
        """Whether someone else has cleared, or zeroed, all that ``see`` saw."""
        return bool(self._seen) and all(map(self._is_cleared, self._seen))

    def _is_cleared(self, param: Parameter) -> bool:
        gradient, version = self._seen[param]
        if param.grad is None:
            return True
        if param.grad is gradient and gradient._version == version:
            return False
        values = param.grad.coalesce()._values() if param.grad.is_sparse else param.grad  # pyright: ignore[reportPrivateUsage]
        return not bool((values != 0).any())  # zeroed, or clipped


class Windows(dict[str, Window]):
    """The windows of all optimizers, by name.

    Args:
        kept: the optimizers.
    """

    def __init__(self, kept: Mapping[str, KeptWeights]) -> None:
        super().__init__({name: Window() for name in kept})
        self._kept = kept

    def has_losses(self, apart_from: Container[str] = ()) -> bool:
        """Whether anything was backpropagated and not stepped."""
        return any(window.losses for name, window in self.items() if name not in apart_from)

    @property
    def names(self) -> frozenset[str]:
        """Of the losses that were backpropagated and not stepped."""
        return frozenset(name for window in self.values() for name in window.names)

    def begin_backward(self, chosen: Iterable[str]) -> None:
        """A backward pass is about to add to the gradients of these optimizers: clear those of a skipped step.

        Gradients of 16 bits become fp32, so that their sums are.
        """
        for kept in self._kept.values():
            kept.begin_backward()
        self.forget_dropped()
        self.clear_gradients([name for name in chosen if self[name].is_spent])

    def end_backward(self, name: str, loss: Tensor, chosen: Iterable[str], *, are_seen: bool) -> None:
        """A loss was backpropagated into the gradients of these optimizers; ``are_seen``: they can be looked at."""
        for key in chosen:
            self[key].add(name, loss)
            if are_seen:
                self[key].see(self._kept[key])

    def forget_dropped(self) -> None:
        """Gradients that someone else has cleared since the session left them leave no trace."""
        for name, window in self.items():
            if window.losses and window.was_cleared():
                self[name] = Window()

    def clear_gradients(self, chosen: Iterable[str]) -> None:
        """Clear gradients."""
        for name in chosen:
            self._kept[name].clear_gradients()
            self[name] = Window()

    def end(self, chosen: Iterable[str], *, is_finite: bool, zero_grad: bool) -> None:
        """A step was taken or skipped with them."""
        for name in chosen:
            if zero_grad:
                self._kept[name].clear_gradients()
            self[name] = Window(is_spent=not is_finite and not zero_grad)
