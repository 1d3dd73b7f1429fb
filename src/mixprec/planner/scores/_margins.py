"""What a cast does to a cross-entropy beyond second order: each term's own margin moved, its loss read off there."""

from __future__ import annotations

import torch
from torch import Tensor

#: Below this an fp32 gradient of a term is rounding, and its loss nothing.
_SURE = 1e-6
#: A fall of a margin whose exponential is far from overflowing.
_LARGE = 30.0


def beyond_second(changes: Tensor, missed: Tensor | None) -> Tensor:
    """The sum over the terms of their losses' changes, less what first and second order say of them.

    A term misses its target with probability q. To first order its loss changes by c where its margin, the target's
    logit over the others' log-sum-exp, falls by ``c / q``; the margin is nearly linear in what errors do to logits, and
    the loss is ``log(1 + exp(-margin))``: it becomes ``log(1 - q + q exp(c / q))`` more. The second order of that is
    ``(1 - q) c^2 / (2 q)``. Of terms that a model is sure of, the first two orders say little of errors as large as
    their margins.

    Args:
        changes: [..., terms], to first order.
        missed: [terms], q; ``None``, or of other terms: nothing is known beyond second order.

    Returns:
        [...]; 0 where nothing is known.

    Example:
        >>> small = beyond_second(torch.tensor([1e-4], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64))
        >>> abs(float(small)) < 1e-12
        True
        >>> sure = beyond_second(torch.tensor([0.05], dtype=torch.float64), torch.tensor([0.01], dtype=torch.float64))
        >>> round(float(sure), 3)  # of a change of 0.906, of which the first two orders tell 0.174
        0.732
    """
    if missed is None or len(missed) != changes.shape[-1]:
        return changes.new_zeros(changes.shape[:-1])
    some = missed > _SURE
    c, q = changes[..., some], missed[some].clamp(max=1 - _SURE)
    fall = c / q
    # No change is exactly none; where exp would overflow, its logarithm is as good.
    small = torch.log1p(q * torch.expm1(fall.clamp(max=_LARGE)))
    exactly = torch.where(fall > _LARGE, torch.logaddexp(torch.log1p(-q), q.log() + fall), small)
    return (exactly - c - 0.5 * (1 - q) * c.square() / q).sum(-1)
