"""One optimizer behind ``initialize``: gradients through the scale, steps that are skipped, weights that are written.

Torch's own hooks do it: before a step and after it, in whatever order schedulers and others wrap ``optimizer.step``.
"""

# Whether a gradient was added to is told by its version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from .._unscaling import coalesced, unscale
from ._keeping import AsTheyAre
from ._losses import Amp, Loss

#: Name of the optimizer's attribute that holds its ``Prepared``.
ATTRIBUTE = "_mixprec_apex"


class Prepared:
    """What an optimizer carries.

    Attributes:
        amp: the losses that it shares with others.
        keeping: of its weights.
    """

    def __init__(self, optimizer: Optimizer, amp: Amp, keeping: AsTheyAre) -> None:
        self.amp, self.keeping = amp, keeping
        self._name = type(optimizer).__name__
        self._scale: float | None = None  # what the gradients carry
        self._is_skipped = self._has_found = self._is_awaited = self._is_told = False
        self._blamed: Loss | None = None  # of other optimizers, whose backward pass reached this one's parameters
        self._params: list[Parameter] = []
        self._aside: dict[Parameter, Tensor] = {}
        self._pending: dict[Parameter, tuple[int, int]] = {}
        amp.members.append(weakref.ref(self))
        if amp.is_enabled:
            optimizer.register_step_pre_hook(self._before_step)
            optimizer.register_step_post_hook(self._after_step)

    def begin_backward(self, scale: float, taken: set[Parameter]) -> None:
        """Lay true gradients aside; those that carry this scale already are added to.

        Args:
            scale: of the loss.
            taken: parameters that another optimizer of this backward pass sees to; these are added to them.
        """
        self.keeping.agree()
        self._params = params = [p for p in self.keeping.parameters() if p not in taken]
        taken.update(params)
        self._pending = {}
        if self._is_skipped and not _has_any(params):
            self._is_skipped, self._blamed = False, None  # what was at fault has been cleared
        if self._scale is not None and any(p.grad is not None for p in params):
            if self._scale == scale:
                self._pending = {p: (id(p.grad), p.grad._version) for p in params if p.grad is not None}
                return
            self._has_found |= self.end_backward(self._scale)
        self._scale = None
        self._aside = {p: p.grad for p in params if p.grad is not None}
        for param in self._aside:
            param.grad = None

    def has_new_gradients(self) -> bool:
        """Whether a backward pass has reached these parameters since ``begin_backward``."""
        return any(p.grad is not None and self._pending.get(p) != (id(p.grad), p.grad._version) for p in self._params)

    def abandon(self) -> None:
        """The backward pass has failed: what it has added is dropped."""
        for param in self._params:
            param.grad = self._aside.pop(param, None)
        self.keeping.attach()
        self._scale = None

    @torch.no_grad()
    def end_with_scale(self, scale: float) -> None:
        """Leave the scale in: true gradients that were laid aside take it on too."""
        self._scale = scale
        for param, earlier in self._aside.items():
            wide = earlier * scale
            self.keeping.set_gradient(param, wide if param.grad is None else _wide(param.grad) + wide)
        self._aside = {}
        self.keeping.attach()

    @torch.no_grad()
    def end_backward(self, scale: float) -> bool:
        """Take the scale out of the gradients and add those that were laid aside.

        Returns:
            Whether one of them is not finite.
        """
        self._scale = None
        new = {p: _wide(p.grad) for p in self._params if p.grad is not None}
        one = torch.ones(())
        found = unscale(new.values(), one / scale, torch.zeros(()), checks_result=scale < 1)
        for param in {**new, **self._aside}:
            parts = [t for t in (new.get(param), self._aside.get(param)) if t is not None]
            param.grad = None
            self.keeping.set_gradient(param, parts[0] if len(parts) == 1 else parts[0] + parts[1])
        self._aside = {}
        self.keeping.attach()
        has_found, self._has_found = self._has_found, False
        return any(bool(flag) for flag in found.values()) or has_found

    def expect_gradients(self) -> None:
        """A backward pass was to reach this optimizer: a step without a gradient is told."""
        self._is_awaited = True

    def skip_next_step(self, blamed: Loss | None = None) -> None:
        """The next step has gradients that are not finite.

        Args:
            blamed: the loss of other optimizers whose gradients they are: it is lowered if they are still there.
        """
        self._is_skipped, self._blamed = True, blamed if not self._is_skipped else self._blamed

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(map(callable, (*args, *kwargs.values()))):
            raise RuntimeError(
                f"{self._name}.step got a closure, which evaluates the loss several times in one step, "
                "each at a scale of its own: expected none; use an optimizer whose step needs none, or enabled=False"
            )
        self.keeping.agree()
        params = self.keeping.parameters()
        has_gradients = any(p.grad is not None for p in params)
        self._refuse_scaled(has_gradients)
        if self._blamed is not None:
            self._is_skipped = _has_any(params)
            if self._is_skipped:
                self._blamed.note(has_overflowed=True)
        for loss in self.amp.losses:
            loss.settle()
        if self._is_skipped:
            self._skip(params)
        elif self._is_awaited and not has_gradients:
            self._tell_no_gradient()
        self._is_awaited, self._blamed = False, None
        self.keeping.agree()

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.keeping.write()
        if not self._is_skipped:
            self.amp.buffers.forget(self.keeping.parameters())
        self._is_skipped = False

    def _refuse_scaled(self, has_gradients: bool) -> None:
        if self.amp.is_open:
            raise RuntimeError(
                f"{self._name}.step inside of a scale_loss, whose gradients still carry the loss scale: expected it "
                "after the end of the with block"
            )
        if self._scale is not None and has_gradients:
            raise RuntimeError(
                f"{self._name}.step: the gradients still carry the loss scale, the last scale_loss had "
                "delay_unscale=True: expected False for the last backward pass before a step"
            )
        self._scale = None

    def _skip(self, params: list[Parameter]) -> None:
        for param in params:
            param.grad = None
        lost = self.amp.buffers.give_back()
        if lost:
            self.amp.tell(f"the skipped step has changed {', '.join(lost)}, of which there was no copy to give back")

    def _tell_no_gradient(self) -> None:
        if not self._is_told:
            self.amp.tell(
                f"{self._name}.step: scale_loss has given none of its parameters a gradient, so that nothing is "
                "trained: is it the optimizer of the model whose loss this is?"
            )
        self._is_told = True


def prepared(optimizer: Any) -> Prepared:
    """What an optimizer carries.

    Raises:
        TypeError: it is no optimizer.
        RuntimeError: it has not been through ``initialize``.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"got a {type(optimizer).__name__}, expected a torch.optim.Optimizer that initialize has returned"
        )
    found = vars(optimizer).get(ATTRIBUTE)
    if found is None:
        raise RuntimeError(
            f"this {type(optimizer).__name__} has not been through initialize: model, optimizer = "
            "amp.initialize(model, optimizer, opt_level=...) comes first"
        )
    return found


def _wide(gradient: Tensor) -> Tensor:
    """A gradient in fp32 or wider."""
    return coalesced(gradient.float() if gradient.dtype in (torch.float16, torch.bfloat16) else gradient)


def _has_any(params: Iterable[Parameter]) -> bool:
    """Whether a gradient is there that is not zero everywhere."""
    grads = [p.grad for p in params if p.grad is not None]
    return any(bool((coalesced(g).values() if g.is_sparse else g).any()) for g in grads)
