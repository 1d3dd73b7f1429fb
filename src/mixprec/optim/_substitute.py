"""One 16-bit parameter and the fp32 master that an optimizer updates in its place."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter


class Substitute:
    """A 16-bit parameter of the model and its fp32 master in the optimizer.

    The master's gradient is the parameter's, the same tensor, so that ``optimizer.zero_grad()``, which reaches the
    master, and ``model.zero_grad()``, which reaches the parameter, do the same.

    Attributes:
        param: the model's parameter.
        master: same shape and device, fp32.
    """

    def __init__(self, param: Parameter) -> None:
        self.param = param
        self.master = Parameter(param.detach().float(), requires_grad=param.requires_grad)
        self.master.grad_dtype = None
        self._seen_version = param._version
        self._is_attached = False
        self._hook = _follow_gradient(self) if param.requires_grad and param.is_leaf else None
        self.attach_gradient()

    def attach_gradient(self) -> None:
        """Give the parameter's gradient to the master."""
        self.master.grad = self.param.grad
        self._is_attached = self.param.grad is not None

    def agree_on_cleared(self) -> None:
        """Clear a gradient on both sides that was cleared on one."""
        if self._is_attached and self.master.grad is None:
            self.param.grad = None
        self.attach_gradient()

    @torch.no_grad()
    def adopt(self) -> bool:
        """Take over what was written to the parameter from outside; see ``KeptWeights.adopt_writes``."""
        if self.param._version == self._seen_version:
            return False
        self._seen_version = self.param._version
        differs = self.master.to(self.param.dtype) != self.param
        if not bool(differs.any()):
            return False
        self.master.copy_(torch.where(differs, self.param.float(), self.master))
        return True

    def refuse_written(self, who: str) -> None:
        """Raise where the parameter itself was written while the optimizer was to update the master."""
        if self.param._version != self._seen_version:
            raise RuntimeError(
                f"{who}.step() wrote to the model's own {self.param.dtype} parameter of shape {list(self.param.shape)}, "
                "which is made from its fp32 master: it keeps a list of parameters beside its param_groups; let it read "
                "param_groups, or keep fp32 parameters (model.float())"
            )

    @torch.no_grad()
    def put(self) -> None:
        """Make the parameter its master, rounded to nearest, ties to even."""
        self.param.copy_(self.master)
        self._seen_version = self.param._version

    def full_weight(self) -> Tensor:
        """A copy of the master."""
        return self.master.detach().clone()

    @torch.no_grad()
    def load_full_weight(self, value: Tensor) -> None:
        """Keep an fp32 value."""
        self.master.copy_(value)
        self.put()

    def extras(self) -> dict[str, Tensor]:
        """The master."""
        return {"master": self.master.detach()}

    @torch.no_grad()
    def load_extras(self, extras: Mapping[str, Tensor]) -> None:
        """Continue from a saved master; the parameter becomes its rounding."""
        if set(extras) != {"master"} or extras["master"].shape != self.param.shape:
            told = ", ".join(f"{name} {list(t.shape)}" for name, t in extras.items()) or "nothing"
            raise ValueError(
                f"a parameter of shape {list(self.param.shape)} is kept with a master, got {told} to continue from"
            )
        self.load_full_weight(extras["master"])

    def release(self) -> None:
        """Part from the master."""
        self.master.grad = None
        if self._hook is not None:
            self._hook.remove()


def _follow_gradient(substitute: Substitute) -> torch.utils.hooks.RemovableHandle:
    """Attach each gradient as soon as it is there; the parameter keeps no reference to its substitute."""
    reference = weakref.ref(substitute)

    def attach(_: Tensor) -> None:
        alive = reference()
        if alive is not None:
            alive.attach_gradient()

    return substitute.param.register_post_accumulate_grad_hook(attach)
