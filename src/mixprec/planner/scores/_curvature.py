"""Gradients drawn at random whose squares are the curvature of a cross-entropy, on average and with little noise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._entropy import CrossEntropy


def drawn_gradients(entropies: Sequence[CrossEntropy], terms: int, seed: int) -> tuple[Tensor, ...] | None:
    """A gradient for each output: ``E[(drawn . dz)^2]`` is ``dz . H dz / terms`` with H the loss's Hessian in z.

    For logits z and their softmax p that Hessian is ``diag(p) - p p^T`` for each term, whatever the target, and
    ``r = sqrt(p) * e - p (sqrt(p) . e)`` with random signs e has just that as its second moment. A gradient of the
    loss itself has it too if targets are as likely as the model says (Fisher's information), but of a model that is
    sure and mostly right only few terms have any: the estimate rests on the luck of these.

    Args:
        entropies: of each output; none where the loss is no mean of cross-entropies.
        terms: that the loss averages over.
        seed: of the signs.

    Returns:
        Of each output's shape; ``None`` where there are no outputs.
    """
    made: list[Tensor] = []
    for entropy in entropies:
        p = entropy.shares
        generator = torch.Generator(device=p.device).manual_seed(seed + len(made))
        signs = torch.randint(0, 2, p.shape, generator=generator, device=p.device).mul_(2).sub_(1)
        root = p.sqrt().mul_(signs)
        drawn = root - p * root.sum(entropy.axis, keepdim=True)
        made.append((drawn * entropy.counts / terms).to(entropy.dtype))
    return tuple(made) or None
