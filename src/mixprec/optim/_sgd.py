"""SGD with momentum, in one pass over weights, gradients and moments, with any way to keep them."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor
from torch.optim.optimizer import ParamsT

from ..kernels import SGDRule
from ._kernel_optimizer import Group, KernelOptimizer
from ._layout import MomentName
from ._options import SharedOptions, check_least, check_shared, fp32, shared_defaults

_MOMENTUM = (MomentName("momentum_buffer"),)
_NONE: tuple[MomentName, ...] = ()


class SGD(KernelOptimizer):
    """Stochastic gradient descent, as ``torch.optim.SGD``; all arithmetic is fp32, whatever is kept.

    With g the gradient times the step's factor: ``g = g + weight_decay * w``; with momentum
    ``b = momentum * b + (1 - dampening) * g`` (at first ``b = g``), then ``g = g + momentum * b`` (nesterov) or ``b``;
    ``w = w - lr * g``. Each operation rounds once; equal in every backend, bit for bit.

    Its state has torch's name ``momentum_buffer``, and ``step``; ``master``, ``remainder`` or ``compensation`` beside a
    16-bit weight; and ``momentum_buffer_scales``, ``momentum_buffer_powers`` of an 8-bit moment.

    Args:
        params: fp32, bf16 or fp16 parameters, or groups of them.
        lr: learning rate, a number or a tensor of one element.
        momentum: 0: none.
        dampening: of the gradient in the momentum.
        weight_decay: coefficient of the L2 term.
        nesterov: whether the update looks ahead; needs momentum and no dampening.
        **options: ``maximize``, ``weights``, ``moments``, ``seed``; see ``SharedOptions``. A group may have its own.

    Raises:
        ValueError: a number out of its range; an option of torch's that is not offered; a way of keeping that does
            not fit a parameter; sharded parameters.
        TypeError: an unknown option; parameters of another dtype.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013.

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> optimizer = SGD([p], lr=0.001, momentum=0.9, weights="kahan")
        >>> p.grad = torch.ones(4, dtype=torch.bfloat16)
        >>> optimizer.step()
        >>> p[0].item(), optimizer.state[p]["compensation"][0].item()
        (1.0, -0.00099945068359375)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None:
        own = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**own, "nesterov": nesterov, **shared_defaults("SGD", options)})

    def moment_names(self, group: Group) -> tuple[MomentName, ...]:
        """``momentum_buffer``, or none without momentum."""
        return _MOMENTUM if group["momentum"] else _NONE

    def check_options(self, group: Group) -> None:
        """Refuse options out of their range."""
        check_shared("SGD", group)
        check_least("SGD", "momentum", group["momentum"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                f"mixprec.optim.SGD: nesterov with momentum={group['momentum']} and dampening={group['dampening']}, "
                "expected a momentum above 0 and no dampening"
            )

    def _rule(self, group: Group, step: int, factor: float, is_first: bool) -> SGDRule:
        return SGDRule(
            factor=fp32(factor),
            weight_decay=fp32(group["weight_decay"]),
            momentum=fp32(group["momentum"]),
            alpha=fp32(1 - group["dampening"]),
            nesterov=group["nesterov"],
            is_first=is_first and bool(group["momentum"]),
            lr=fp32(float(group["lr"])),
        )
