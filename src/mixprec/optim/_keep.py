"""How the weights of an optimizer are kept: one call for every optimizer and every way."""

from __future__ import annotations

from torch.optim import Optimizer

from ..specs import Moments, Weights
from ._any_optimizer import SubstitutedWeights
from ._kept_weights import KeptWeights

_FP32_MOMENTS = Moments()


def keep_weights(
    optimizer: Optimizer, kind: Weights, *, moments: Moments = _FP32_MOMENTS, seed: int = 0
) -> KeptWeights:
    """Decide how the weights of an optimizer are kept.

    ``"master"``: every bf16 or fp16 parameter is replaced in the optimizer's groups by an fp32 master, in place
    and in order; its state moves along, cast to fp32. Parameters of other dtypes are untouched. ``"true"``:
    nothing is replaced.

    Args:
        optimizer: of any class; group options stay.
        kind: a recipe's ``weights``.
        moments: how an optimizer of ``mixprec.optim`` keeps its moments.
        seed: of stochastic rounding.

    Returns:
        The handle: gradients in, rounded weights out, ``restore()``.

    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.1.

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> kept = keep_weights(torch.optim.SGD([p], lr=0.001), "master")
        >>> p.grad = torch.ones(4, dtype=torch.bfloat16)
        >>> kept.apply(1.0)
        >>> kept.full_weight(p)[0].item(), p[0].item()
        (0.9990000128746033, 1.0)
    """
    return SubstitutedWeights(optimizer, kind, seed)
