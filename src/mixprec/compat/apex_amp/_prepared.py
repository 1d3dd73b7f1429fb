"""One optimizer behind ``initialize``: gradients through the scale, steps that are skipped, weights that are written.

Torch's own hooks do it: before a step and after it, in whatever order schedulers and others wrap ``optimizer.step``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from .._unscaling import coalesced, unscale
from ._keeping import AsTheyAre
from ._losses import Amp

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
        self._scale: float | None = None  # what the gradients carry
        self._is_skipped = False
        self._aside: dict[Parameter, Tensor] = {}
        if amp.is_enabled:
            optimizer.register_step_pre_hook(self._before_step)
            optimizer.register_step_post_hook(self._after_step)

    def begin_backward(self, scale: float) -> None:
        """Lay true gradients aside; those that carry this scale already are added to."""
        self.keeping.agree()
        params = self.keeping.parameters()
        if self._scale is not None and any(p.grad is not None for p in params):
            if self._scale == scale:
                return
            self._is_skipped |= self.end_backward(self._scale)
        self._scale = None
        self._aside = {p: p.grad for p in params if p.grad is not None}
        for param in self._aside:
            param.grad = None

    def abandon(self) -> None:
        """The backward pass has failed: what it has added is dropped."""
        for param in self.keeping.parameters():
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
        new = {p: _wide(p.grad) for p in self.keeping.parameters() if p.grad is not None}
        one = torch.ones(())
        found = unscale(new.values(), one / scale, torch.zeros(()), checks_result=scale < 1)
        for param in {**new, **self._aside}:
            parts = [t for t in (new.get(param), self._aside.get(param)) if t is not None]
            param.grad = None
            self.keeping.set_gradient(param, parts[0] if len(parts) == 1 else parts[0] + parts[1])
        self._aside = {}
        self.keeping.attach()
        return any(bool(flag) for flag in found.values())

    def skip_next_step(self) -> None:
        """The next step has gradients that are not finite."""
        self._is_skipped = True

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(map(callable, (*args, *kwargs.values()))):
            raise RuntimeError(
                f"{type(optimizer).__name__}.step got a closure, which evaluates the loss several times in one step, "
                "each at a scale of its own: expected none; use an optimizer whose step needs none, or enabled=False"
            )
        if self._scale is not None:
            raise RuntimeError(
                f"{type(optimizer).__name__}.step: the gradients still carry the loss scale, the last scale_loss had "
                "delay_unscale=True: expected False for the last backward pass before a step"
            )
        for loss in self.amp.losses:
            loss.settle()
        if self._is_skipped:
            for param in self.keeping.parameters():
                param.grad = None
        self._is_skipped = False
        self.keeping.agree()

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.keeping.write()


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
