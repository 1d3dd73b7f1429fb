"""An optimizer that updates masters: substitution in its parameter groups, and the way back."""

# torch marks its multi-tensor functions private; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ._masters import HALF_DTYPES, MasterPair


def keep_weights(optimizer: Optimizer, kind: Literal["master", "true"]) -> KeptWeights:
    """Decide how the weights of an optimizer are kept.

    ``"master"``: every bf16 or fp16 parameter is replaced in the optimizer's groups by an fp32 master, in place
    and in order; its state moves along, cast to fp32. Parameters of other dtypes are untouched. ``"true"``:
    nothing is replaced.

    Args:
        optimizer: of any class; group options stay.
        kind: a recipe's ``weights``.

    Returns:
        The handle: gradients in, rounded weights out, ``restore()``.

    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.1.

    Example:
        >>> p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> optimizer = torch.optim.SGD([p], lr=0.001)
        >>> kept = keep_weights(optimizer, "master")
        >>> p.grad = torch.ones(4)
        >>> kept.widen_gradients(); optimizer.step(); kept.write_back()
        >>> optimizer.param_groups[0]["params"][0][0].item(), p[0].item()
        (0.9990000128746033, 1.0)
    """
    if kind == "true":
        return KeptWeights(optimizer, {})
    halves = [p for group in optimizer.param_groups for p in group["params"] if p.dtype in HALF_DTYPES]
    pairs = {param: MasterPair.of(param) for param in halves}
    _substitute(optimizer, {p: pair.master for p, pair in pairs.items()}, lambda t, _: t.float())
    return KeptWeights(optimizer, pairs)


class KeptWeights:
    """The masters of an optimizer.

    Attributes:
        optimizer: whose groups hold the masters.
        pairs: by the model's parameter; empty where no parameter has a master.
    """

    def __init__(self, optimizer: Optimizer, pairs: Mapping[Parameter, MasterPair]) -> None:
        self.optimizer, self.pairs = optimizer, dict(pairs)

    def begin_backward(self) -> None:
        """To be called before a backward pass: a gradient that was cleared on one side is cleared on both."""
        for pair in self.pairs.values():
            pair.begin_backward()

    def widen_gradients(self) -> None:
        """To be called after a backward pass: 16-bit gradients become fp32 and are the masters' too."""
        for pair in self.pairs.values():
            pair.widen_gradient()

    def adopt_writes(self) -> list[Parameter]:
        """Parameters that were written from outside (a checkpoint was loaded): their masters follow them."""
        return [pair.param for pair in self.pairs.values() if pair.was_written() and pair.adopt()]

    @torch.no_grad()
    def write_back(self) -> None:
        """Make each parameter its master, rounded to nearest, ties to even."""
        if not self.pairs:
            return
        pairs = self.pairs.values()
        torch._foreach_copy_([p.param for p in pairs], [p.master for p in pairs])
        for pair in pairs:
            pair.written_back()

    def clear_gradients(self, *, set_to_none: bool = True) -> None:
        """``optimizer.zero_grad()`` that reaches the model's parameters too."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        for pair in self.pairs.values():
            pair.clear_gradient()

    def restore(self) -> None:
        """Give the optimizer the model's own parameters back, its state cast to their dtype.

        A master's bits below the parameter's precision are lost.
        """
        if not self.pairs:
            return
        back = {pair.master: param for param, pair in self.pairs.items()}
        for pair in self.pairs.values():
            pair.release()
        _substitute(self.optimizer, back, lambda t, param: t.to(param.dtype))
        self.pairs = {}


def _substitute(
    optimizer: Optimizer, new: Mapping[Parameter, Parameter], convert: Callable[[Tensor, Parameter], Tensor]
) -> None:
    """Replace parameters in every group, and move their state; moments are cast, step counters are not."""
    for group in optimizer.param_groups:
        group["params"][:] = [new.get(p, p) for p in group["params"]]
    for old, param in new.items():
        if old in optimizer.state:
            state: dict[str, Any] = optimizer.state.pop(old)
            optimizer.state[param] = {
                k: convert(v, param) if k != "step" and isinstance(v, Tensor) and v.dtype == old.dtype else v
                for k, v in state.items()
            }
