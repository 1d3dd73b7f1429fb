"""One 16-bit parameter and its fp32 master: gradients go in wide, the rounded weight comes back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

HALF_DTYPES = (torch.bfloat16, torch.float16)


@dataclass(eq=False)
class MasterPair:
    """A 16-bit parameter and the fp32 weight that the optimizer updates in its place.

    Attributes:
        param: the model's parameter, 16 bits.
        master: same shape and device, fp32.
    """

    param: Parameter
    master: Parameter

    def __post_init__(self) -> None:
        self._seen_version = self.param._version

    @classmethod
    def of(cls, param: Parameter) -> MasterPair:
        """A master that starts as the parameter's exact value.

        The parameter's gradient may be wider than the parameter from here on: sums over several backward passes
        and the removal of a loss scale then happen in fp32.
        """
        if not hasattr(param, "grad_dtype"):
            raise ValueError(
                f"fp32 masters for {param.dtype} parameters need torch 2.10 or newer (Tensor.grad_dtype), got torch "
                f"{torch.__version__}: upgrade torch, or keep fp32 parameters (model.float())"
            )
        master = Parameter(param.detach().float(), requires_grad=param.requires_grad)
        pair = cls(param, master)
        param.grad_dtype = None
        if param.grad is not None:
            pair.widen_gradient()
        return pair

    def begin_backward(self) -> None:
        """Take over an ``optimizer.zero_grad()``, which reached only the master, and the other way about."""
        if self.master.grad is None:
            self.param.grad = None
        elif self.param.grad is None:
            self.master.grad = None

    def widen_gradient(self) -> None:
        """Make the parameter's gradient fp32, exactly, and give the same tensor to the master."""
        grad = self.param.grad
        if grad is not None and grad.dtype != torch.float32:
            grad = self.param.grad = grad.float()
        self.master.grad = grad

    def clear_gradient(self) -> None:
        """Forget the gradient of both."""
        self.param.grad = self.master.grad = None

    def was_written(self) -> bool:
        """Whether something else than ``written_back`` wrote to the parameter in place."""
        return self.param._version != self._seen_version

    @torch.no_grad()
    def adopt(self) -> bool:
        """Take over what was written to the parameter; elements that are the rounded master keep its low bits.

        Returns:
            Whether any element of the master changed.
        """
        self._seen_version = self.param._version
        differs = self.master.to(self.param.dtype) != self.param
        if not bool(differs.any()):
            return False
        self.master.copy_(torch.where(differs, self.param.float(), self.master))
        return True

    def written_back(self) -> None:
        """The parameter now is the rounded master."""
        self._seen_version = self.param._version

    @torch.no_grad()
    def load(self, master: Tensor) -> None:
        """Continue from a saved master; the parameter becomes its rounded value."""
        self.master.copy_(master)
        self.param.copy_(self.master)
        self.written_back()

    def release(self) -> None:
        """Give the parameter its own gradient back, in its own dtype."""
        grad = self.param.grad
        self.clear_gradient()
        self.param.grad_dtype = self.param.dtype
        if grad is not None:
            self.param.grad = grad.to(self.param.dtype)
