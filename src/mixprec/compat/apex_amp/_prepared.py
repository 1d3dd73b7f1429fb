"""One optimizer behind ``initialize``: gradients through the scale, steps that are skipped, weights that are written.

Torch's own hooks do it: before a step and after it, in whatever order schedulers and others wrap ``optimizer.step``.
"""

# torch marks its multi-tensor functions private; its own scaler is made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ._keeping import AsTheyAre
from ._losses import Amp

#: Name of the optimizer's attribute that holds its ``Prepared``.
ATTRIBUTE = "_mixprec_apex"


class Prepared:
    """What an optimizer carries.

    Attributes:
        amp: the losses that it shares with others.
        keeping: of its weights.
        is_scaled: whether its gradients still carry a scale.
    """

    def __init__(self, optimizer: Optimizer, amp: Amp, keeping: AsTheyAre) -> None:
        self.amp, self.keeping, self.is_scaled = amp, keeping, False
        self._is_skipped = False
        self._aside: dict[Parameter, Tensor] = {}
        if amp.is_enabled:
            optimizer.register_step_pre_hook(self._before_step)
            optimizer.register_step_post_hook(self._after_step)

    def begin_backward(self) -> None:
        """Lay the unscaled gradients aside; those that still carry a scale are added to."""
        self.keeping.agree()
        if self.is_scaled:
            return
        for param in self.keeping.parameters():
            if param.grad is not None:
                self._aside[param], param.grad = param.grad, None

    @torch.no_grad()
    def end_backward(self, scale: float) -> bool:
        """Take the scale out of the gradients and add those that were laid aside.

        Returns:
            Whether one of them is not finite.
        """
        self.is_scaled, has_overflowed = False, False
        for param in self.keeping.parameters():
            earlier = self._aside.pop(param, None)
            if param.grad is None:
                if earlier is not None:
                    param.grad = earlier
                continue
            wide, is_finite = _unscaled(param.grad, scale)
            has_overflowed |= not is_finite
            param.grad = None
            self.keeping.set_gradient(param, wide if earlier is None else wide + earlier)
        self.keeping.attach()
        return has_overflowed

    def skip_next_step(self) -> None:
        """The next step has gradients that are not finite."""
        self._is_skipped = True

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(map(callable, (*args, *kwargs.values()))):
            raise RuntimeError(
                f"{type(optimizer).__name__}.step got a closure, which evaluates the loss several times in one step, "
                "each at a scale of its own: expected none; use an optimizer whose step needs none, or enabled=False"
            )
        if self.is_scaled:
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


def _unscaled(gradient: Tensor, scale: float) -> tuple[Tensor, bool]:
    """A gradient without its scale, in fp32 or wider, and whether it is finite both with and without."""
    wide = gradient.float() if gradient.dtype in (torch.float16, torch.bfloat16) else gradient
    if wide.is_sparse:
        wide = wide.coalesce()  # an index that occurs twice is one element
    values = wide._values() if wide.is_sparse else wide
    found, factor = values.new_zeros((), dtype=torch.float32), values.new_ones((), dtype=torch.float32)
    torch._amp_foreach_non_finite_check_and_unscale_([values], found, factor / scale)
    if scale < 1:
        torch._amp_foreach_non_finite_check_and_unscale_([values], found, factor)
    return wide, not bool(found)
