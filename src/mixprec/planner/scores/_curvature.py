"""Gradients drawn at random whose squares are the curvature of a cross-entropy, on average and with little noise."""

from __future__ import annotations

import torch
from torch import Tensor

from ._outputs import Outputs
from ._terms import class_axis

#: How far a gradient may be from that of a mean cross-entropy, relative to its norm, and still be taken for one.
_TOLERANCE = 1e-2


def drawn_gradients(outputs: Outputs, seed: int) -> tuple[Tensor, ...] | None:
    """A gradient for each output: ``E[(drawn . dz)^2]`` is ``dz . H dz / terms`` with H the loss's Hessian in z.

    For logits z and their softmax p that Hessian is ``diag(p) - p p^T`` for each term, whatever the target, and
    ``r = sqrt(p) * e - p (sqrt(p) . e)`` with random signs e has just that as its second moment. A gradient of the
    loss itself has it too if targets are as likely as the model says (Fisher's information), but of a model that is
    sure and mostly right only few terms have any: the estimate rests on the luck of these.

    Returns:
        Of each output's shape; ``None`` where the loss is no mean of cross-entropies of softmax over logits.
    """
    made: list[Tensor] = []
    for z, gradient in zip(outputs.values, outputs.gradients, strict=True):
        logits, g = z.detach().float(), gradient.detach().float()
        axis = class_axis(g)
        if axis is None or not is_cross_entropy(logits, g, axis, outputs.counted.terms):
            return None
        p = logits.softmax(axis)
        generator = torch.Generator(device=z.device).manual_seed(seed + len(made))
        signs = torch.randint(0, 2, p.shape, generator=generator, device=z.device).mul_(2).sub_(1)
        root = p.sqrt().mul_(signs)
        drawn = root - p * root.sum(axis, keepdim=True)
        counts = g.abs().amax(axis, keepdim=True) > 0  # not the places that the loss leaves out
        made.append((drawn * counts / outputs.counted.terms).to(z.dtype))
    return tuple(made) or None


def is_cross_entropy(logits: Tensor, gradient: Tensor, axis: int, terms: int) -> bool:
    """Whether each row of a gradient is ``(softmax - target) / terms``, the target being one class, or zero."""
    p = logits.softmax(axis)
    target = torch.zeros_like(p).scatter_(axis, gradient.argmin(axis, keepdim=True), 1.0)
    counts = gradient.abs().amax(axis, keepdim=True) > 0
    expected = (p - target) * counts / terms
    return bool((expected - gradient).norm() <= _TOLERANCE * gradient.norm())
