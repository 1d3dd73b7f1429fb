"""AdamW, in one pass over weights, gradients and moments, with any way to keep them."""

from __future__ import annotations

import math
from typing import Any, Unpack

from torch import Tensor
from torch.optim.optimizer import ParamsT

from ..kernels import AdamWRule
from ._kernel_optimizer import Group, KernelOptimizer
from ._layout import MomentName
from ._options import SharedOptions, check_least, check_shared, fp32, shared_defaults

_MOMENTS = (MomentName("exp_avg"), MomentName("exp_avg_sq", is_signed=False))


class AdamW(KernelOptimizer):
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``; all arithmetic is fp32, whatever is kept.

    With g the gradient times the step's factor, and t the step, from 1:
    ``w = w * (1 - lr * weight_decay)``; ``m = beta1 * m + (1 - beta1) * g``; ``v = beta2 * v + (1 - beta2) * g * g``;
    ``w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)``. Each operation rounds once; equal in every
    backend, bit for bit.

    Its state has torch's names (``step``, ``exp_avg``, ``exp_avg_sq``); ``master``, ``remainder`` or ``compensation``
    beside a 16-bit weight; and ``exp_avg_scales``, ``exp_avg_powers``, ... of 8-bit moments.

    Args:
        params: fp32, bf16 or fp16 parameters, or groups of them.
        lr: learning rate, a number or a tensor of one element.
        betas: of the first and the second moment.
        eps: added to the root.
        weight_decay: coefficient of the decay.
        **options: ``maximize``, ``weights``, ``moments``, ``seed``; see ``SharedOptions``. A group may have its own.

    Raises:
        ValueError: a number out of its range; an option of torch's that is not offered; a way of keeping that does
            not fit a parameter; sharded parameters.
        TypeError: an unknown option; parameters of another dtype.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv:1711.05101; Kingma and Ba, Adam,
    arXiv:1412.6980.

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> optimizer = AdamW([p], lr=0.001, weights="split")
        >>> p.grad = torch.ones(4, dtype=torch.bfloat16)
        >>> optimizer.step()
        >>> p[0].item(), optimizer.state[p]["remainder"][0].item()
        (1.0, -16945)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        **options: Unpack[SharedOptions],
    ) -> None:
        shared = shared_defaults("AdamW", options)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **shared})

    def moment_names(self, group: Group) -> tuple[MomentName, ...]:
        """``exp_avg`` and ``exp_avg_sq``."""
        return _MOMENTS

    def check_options(self, group: Group) -> None:
        """Refuse options out of their range."""
        check_shared("AdamW", group)
        check_least("AdamW", "eps", group["eps"])
        if group["eps"] > 0 and fp32(group["eps"]) == 0:
            raise ValueError(f"mixprec.optim.AdamW: eps is {group['eps']}, which is 0 in fp32; expected 1e-45 or more")
        betas: tuple[Any, ...] = tuple(group["betas"])
        if len(betas) != 2 or not all(float(beta) >= 0 and fp32(beta) < 1 for beta in betas):
            raise ValueError(f"mixprec.optim.AdamW: betas are {betas}, expected two numbers from 0 to below 1")

    def _rule(self, group: Group, step: int, factor: float, is_first: bool) -> AdamWRule:
        lr, (beta1, beta2) = float(group["lr"]), map(float, group["betas"])
        return AdamWRule(
            factor=fp32(factor),
            decay=fp32(1 - lr * group["weight_decay"]),
            beta1=fp32(beta1),
            alpha1=fp32(1 - beta1),
            beta2=fp32(beta2),
            alpha2=fp32(1 - beta2),
            rate=fp32(lr / (1 - beta1**step)),
            correction=fp32(1 / math.sqrt(1 - beta2**step)),
            eps=fp32(group["eps"]),
        )
