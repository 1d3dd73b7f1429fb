"""Optimizers that the tests step: torch's, and a user's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer


class Lion(Optimizer):
    """Sign of an interpolated momentum, as a user would write it."""

    def __init__(
        self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), wd: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "wd": wd})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                beta1, beta2 = group["betas"]
                p.mul_(1 - group["lr"] * group["wd"])
                p.add_((state["m"] * beta1 + p.grad * (1 - beta1)).sign(), alpha=-group["lr"])
                state["m"].mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lookahead(Optimizer):
    """Slow weights beside a wrapped optimizer, as the common implementations keep them: copies, in its own state."""

    def __init__(self, optimizer: Optimizer, every: int = 5, alpha: float = 0.5) -> None:
        self.optimizer, self.every, self.alpha = optimizer, every, alpha
        self.param_groups, self.defaults = optimizer.param_groups, optimizer.defaults
        self.state: Any = defaultdict(dict)
        self.steps = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if "slow" not in self.state[p]:
                    self.state[p]["slow"] = p.data.clone()
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.every:
            return
        for group in self.param_groups:
            for p in group["params"]:
                slow: Tensor = self.state[p]["slow"]
                slow.add_(p.data - slow, alpha=self.alpha)
                p.data.copy_(slow)


Make = Callable[[list[Parameter]], Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "sgd-foreach": lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9, nesterov=True, foreach=True),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=0.01, weight_decay=0.1),
    "adamw-fused": lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True),
    "adamw-amsgrad": lambda ps: torch.optim.AdamW(ps, lr=0.01, amsgrad=True),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01, centered=True),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1),
    "adafactor": lambda ps: torch.optim.Adafactor(ps, lr=0.05),
    "lion": lambda ps: Lion(ps, lr=0.003),
    "muon": lambda ps: torch.optim.Muon([p for p in ps if p.dim() == 2], lr=0.02),
    "lookahead": lambda ps: Lookahead(torch.optim.Adam(ps, lr=0.02)),
}
