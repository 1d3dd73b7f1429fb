"""The same batch in the baseline precision: what the recipe's precision alone costs now."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..distributed import is_sharded
from ..monitor import everything_aside
from ..nn import Conversion, conversion_of
from ._checks import check_loss
from ._scaled_gradients import scaled_loss

Loss = Callable[[nn.Module, Any], Tensor]

#: Below it a gradient is not to be told from the noise of its rounding: Chmiel et al., arXiv:2505.19115.
LEAST_RATIO = math.sqrt(3.0)
_OF_ITSELF = " fp32 is not finite either, so that no target is missed by the precision;"


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """One batch in the recipe and in the baseline, from the same weights and random states.

    Attributes:
        step: applied steps before it.
        loss: in the recipe.
        baseline: in fp32, from the full weights.
        gap: what the precision costs: ``loss - baseline``; not finite where one of them is not.
        ratio: norm of the baseline's gradient over that of what the recipe has put into it; ``inf`` without a
            difference, ``None`` where no backward pass was run.
        seconds: that the two took.
        bytes: of the copy of the weights that it made meanwhile.

    Example:
        >>> print(Shadow(step=7, loss=2.5, baseline=2.25, ratio=4.0, seconds=0.1, bytes=64))
        shadow at step 7: loss 2.5, in fp32 2.25 (gap 0.25); gradient 4 times its rounding noise; 0.1 s
    """

    step: int
    loss: float
    baseline: float
    ratio: float | None
    seconds: float
    bytes: int

    @property
    def gap(self) -> float:
        return self.loss - self.baseline

    @property
    def drowns(self) -> bool:
        """Whether the gradient is less than sqrt(3) times its noise."""
        return self.ratio is not None and self.ratio < LEAST_RATIO

    def __str__(self) -> str:
        itself = "" if math.isfinite(self.baseline) else _OF_ITSELF
        noise = "" if self.ratio is None else f" gradient {self.ratio:.3g} times its rounding noise;"
        return (
            f"shadow at step {self.step}: loss {self.loss:.6g}, in fp32 {self.baseline:.6g} (gap {self.gap:.3g});"
            f"{itself}{noise} {self.seconds:.3g} s"
        )


@dataclass(frozen=True, kw_only=True)
class Shadowed:
    """What is compared.

    Attributes:
        model: converted.
        conversion: of it.
        value: full value of a parameter.
        scale: of the loss.
        step: applied steps so far.
    """

    model: nn.Module
    conversion: Conversion
    value: Callable[[nn.Parameter], Tensor]
    scale: float
    step: int


def measure_shadow(shadowed: Shadowed, loss: Loss, batch: Any, *, backward: bool) -> Shadow:
    """Run a batch in both, and leave everything as it was.

    Raises:
        ValueError: a sharded model, of which no copy can be made.
        TypeError: ``loss`` gives no tensor.
    """
    sharded = [name for name, p in shadowed.model.named_parameters() if is_sharded(p)]
    if sharded:
        raise ValueError(
            f"shadow: {sharded[0]} is sharded over ranks, and the baseline needs a whole copy of the model: measure "
            "without sharding, or by mixprec compare"
        )
    started = time.perf_counter()
    own = _run(shadowed.model, shadowed.conversion, loss, batch, shadowed.scale if backward else None)
    twin = _twin(shadowed)
    base = _run(twin, None, loss, batch, 1.0 if backward else None)
    return Shadow(
        step=shadowed.step,
        loss=own.loss,
        baseline=base.loss,
        ratio=_ratio(own.gradients, base.gradients) if backward else None,
        seconds=time.perf_counter() - started,
        bytes=sum(t.nbytes for t in (*twin.parameters(), *twin.buffers())),
    )


@dataclass(frozen=True)
class _Ran:
    """A loss, and the gradients of the parameters, unscaled."""

    loss: float
    gradients: Mapping[str, Tensor]


def _run(model: nn.Module, conversion: Conversion | None, loss: Loss, batch: Any, scale: float | None) -> _Ran:
    """Forward, and where a scale is given backward through it; random states are afterwards as they were before."""
    with everything_aside(model, conversion), torch.set_grad_enabled(scale is not None):
        value = loss(model, batch)
        if scale is None:
            if not isinstance(cast("object", value), Tensor):
                raise TypeError(f"shadow: loss gave a {type(value).__name__}, expected a tensor of one number")
            return _Ran(float(value.detach()), {})
        check_loss(value)
        with nullcontext() if conversion is None else conversion.region():
            scaled_loss(value, scale).backward()  # pyright: ignore[reportUnknownMemberType]
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        return _Ran(
            float(value.detach()), {name: grad.to(torch.float32, copy=True) / scale for name, grad in found.items()}
        )


def _twin(shadowed: Shadowed) -> nn.Module:
    """The model as the user made it, in fp32, with the full weights."""
    twin = copy.deepcopy(shadowed.model)
    conversion = conversion_of(twin)
    if conversion is not None:
        conversion.restore()
    twin.float()
    values = dict(shadowed.model.named_parameters())
    with torch.no_grad():
        for name, p in twin.named_parameters():
            if values[name].dtype.itemsize < p.dtype.itemsize:  # 16 bits, beside which the rest may be kept
                p.copy_(shadowed.value(values[name]))
    return twin


def _ratio(own: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> float:
    signal = sum(float(g.double().square().sum()) for g in base.values())
    noise = sum(float((own[name].double() - g.double()).square().sum()) for name, g in base.items() if name in own)
    if not math.isfinite(noise) or not math.isfinite(signal):
        return 0.0
    return math.sqrt(signal / noise) if noise > 0.0 else math.inf
