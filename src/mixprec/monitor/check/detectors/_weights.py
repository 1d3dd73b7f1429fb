"""16-bit weights whose updates are rounded away, and an optimizer's eps that fp16 does not hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ....optim import SGD as KernelSGD
from ....optim import AdamW, lost_eps
from ..._finding import Finding
from .._call import short
from .._values import NARROW
from ._detector import Detector, Step

#: Relative updates below this are always lost (numerics: 2^-(m+2) for m mantissa bits).
STALLED = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}
#: Share of the elements with a gradient from which on a parameter is told, and from which on that is a fault.
SOME, MOST = 0.5, 0.9


class WeightDetector(Detector):
    """16-bit weights that an optimizer updates without fp32 masters.

    The first update is compared with the weight: of Adam's kind it is the learning rate, of SGD's the learning rate
    times the (clipped) gradient over 1 - momentum. Below 2^-9 of the weight in bf16 and 2^-12 in fp16 it is always
    lost: a warning where that is half of the elements, a fault from 90 % on. Where a schedule warms up, its full rate
    counts. Other optimizers are passed over.
    """

    def end(self, step: Step) -> Iterable[Finding]:
        """The weights of every optimizer."""
        for optimizer in self.setting.optimizers:
            for group in optimizer.param_groups:
                if self._rounds(optimizer, group):
                    yield from self._group(optimizer, group, step)

    def _rounds(self, optimizer: Optimizer, group: Mapping[str, Any]) -> bool:
        """Whether updates of 16-bit weights are rounded to nearest."""
        if isinstance(optimizer, (AdamW, KernelSGD)):
            said = group.get("weights")
            return said == "true" or (said is None and self.setting.rounds_weights is True)
        return self.setting.rounds_weights is not False

    def _group(self, optimizer: Optimizer, group: Mapping[str, Any], step: Step) -> Iterator[Finding]:
        narrow = [p for p in group["params"] if p.dtype in NARROW and p in self.setting.names]
        eps = lost_eps(optimizer, group)
        if eps is not None and narrow:
            yield self._lost_eps(optimizer, eps, narrow)
        rate = max(float(group.get("lr", 0.0)), float(group.get("initial_lr", 0.0)))
        for p in narrow:
            gradient = step.gradients.get(self.setting.names[p])
            if gradient is None or not rate > 0:
                continue
            update = _update(
                optimizer, group, rate, gradient.detach().float() / self.setting.loss_scale, self._clip(step)
            )
            if update is not None:
                yield from self._compare(optimizer, p, update, gradient, rate)

    def _clip(self, step: Step) -> float:
        """What clipping multiplies gradients by."""
        if self.setting.clip_norm is None:
            return 1.0
        norm = math.sqrt(sum(float(g.detach().double().square().sum()) for g in step.gradients.values()))
        norm /= self.setting.loss_scale
        return min(1.0, self.setting.clip_norm / norm) if norm > 0 else 1.0

    def _compare(
        self, optimizer: Optimizer, p: Parameter, update: Tensor, gradient: Tensor, rate: float
    ) -> Iterator[Finding]:
        weight, moves = p.detach().float().abs(), gradient.detach() != 0
        some, least = int(moves.sum()), STALLED[p.dtype]
        share = float((moves & (update < least * weight)).sum()) / max(some, 1)
        if share < SOME:
            return
        typical = float((update / weight)[moves].median())
        dtype = short(p.dtype)
        yield Finding(
            step=self.setting.step,
            name="update too small",
            severity="fault" if share >= MOST else "warning",
            site=self.setting.names[p],
            message=f"{self.setting.names[p]} is {dtype} without an fp32 master, and {type(optimizer).__name__} at "
            f"learning rate {rate:g} changes it by {typical:.2g} of its value: {100 * share:.0f} % of {some} updates "
            "are rounded away",
            evidence={"share lost": share, "typical update / weight": typical, "learning rate": rate},
            threshold=f"{least:g} of the weight is always lost in {dtype}; told from {SOME:g} of the elements on",
            remedy=f"keep fp32 masters (recipe '{dtype}'), or round stochastically or with Kahan sums ('bf16-sr', "
            "'bf16-kahan')",
            rule='weights = "master"\n',
        )

    def _lost_eps(self, optimizer: Optimizer, eps: float, narrow: list[Parameter]) -> Finding:
        return Finding(
            step=self.setting.step,
            name="optimizer eps that vanishes",
            severity="fault",
            site=self.setting.names[narrow[0]],
            message=f"{type(optimizer).__name__} updates {len(narrow)} fp16 parameters with eps={eps:g}, which is 0 in "
            "fp16: a gradient of zero gives 0 / 0, one of 1e-4 an infinite update",
            evidence={"eps": eps, "parameters": len(narrow)},
            threshold="an eps of 6e-8 or more",
            remedy="keep fp32 masters (recipe 'fp16'), take mixprec.optim.AdamW, or eps=1e-4",
            rule='weights = "master"\n',
        )


def _update(
    optimizer: Optimizer, group: Mapping[str, Any], rate: float, gradient: Tensor, clip: float
) -> Tensor | None:
    """Magnitude of the first update; ``None``: of an optimizer whose update is not known here."""
    kind = type(optimizer).__name__.lower()
    if "adam" in kind or kind in ("lion", "adagrad", "signsgd", "lamb"):
        return torch.full_like(gradient, rate)
    if "sgd" in kind:
        return gradient.abs() * (clip * rate / max(1.0 - float(group.get("momentum", 0.0)), 1e-3))
    if kind == "rmsprop":
        return torch.full_like(gradient, rate / math.sqrt(max(1.0 - float(group.get("alpha", 0.99)), 1e-6)))
    return None
