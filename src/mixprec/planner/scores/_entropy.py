"""Whether a loss is a mean of cross-entropies of a softmax over the model's outputs, and what the softmax is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ._outputs import Outputs
from ._terms import class_axis

#: How far a gradient may be from that of a mean cross-entropy, relative to its norm, and still be taken for one.
_TOLERANCE = 1e-2


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Of one output.

    Attributes:
        axis: along which the classes lie.
        shares: of the output's shape, fp32: its softmax.
        target: of the output's shape with one place along ``axis``: the class that the loss asks for.
        counts: likewise: whether the loss asks for any.
        dtype: of the output.
    """

    axis: int
    shares: Tensor
    target: Tensor
    counts: Tensor
    dtype: torch.dtype

    def missed(self) -> Tensor:
        """[rows]: what the model gives to all classes but the target, float64; 0 where the loss asks for none."""
        others = self.shares.scatter(self.axis, self.target, 0.0).sum(self.axis, keepdim=True)
        return (others * self.counts).double().flatten()


def cross_entropies(outputs: Outputs) -> tuple[CrossEntropy, ...]:
    """Of each output; none at all where the loss is something else in one of them."""
    made = tuple(
        _cross_entropy(z.detach(), gradient.detach().float(), outputs.counted.terms)
        for z, gradient in zip(outputs.values, outputs.gradients, strict=True)
    )
    return tuple(entropy for entropy in made if entropy is not None) if None not in made else ()


def _cross_entropy(logits: Tensor, gradient: Tensor, terms: int) -> CrossEntropy | None:
    """Where each row of a gradient is ``(softmax - target) / terms``, the target being one class, or zero."""
    axis = class_axis(gradient)
    if axis is None:
        return None
    shares = logits.float().softmax(axis)
    target = gradient.argmin(axis, keepdim=True)
    counts = gradient.abs().amax(axis, keepdim=True) > 0  # not the places that the loss leaves out
    expected = shares.scatter_add(axis, target, shares.new_full((), -1.0).expand(target.shape)).mul_(counts).div_(terms)
    if bool((expected - gradient).norm() > _TOLERANCE * gradient.norm()):
        return None
    return CrossEntropy(axis=axis, shares=shares, target=target, counts=counts, dtype=logits.dtype)
