"""One step of each optimizer on fp32 tensors: every operation rounds once, in the order written."""

from __future__ import annotations

from torch import Tensor

from .._optimizer_contract import AdamWRule, Rule, SGDRule


def update(rule: Rule, gradient: Tensor, weight: Tensor, moments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """New weight and moments.

    Args:
        rule: of the optimizer.
        gradient: fp32, of the weight's shape.
        weight: fp32.
        moments: fp32, of the rule, in its order.

    Returns:
        The weight and the moments after it, fresh.
    """
    if isinstance(rule, AdamWRule):
        return adamw(rule, gradient, weight, *moments)
    return sgd(rule, gradient, weight, *moments)


def adamw(rule: AdamWRule, gradient: Tensor, weight: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """AdamW (Loshchilov & Hutter, arXiv:1711.05101, algorithm 2), as `AdamWRule` writes it.

    Example:
        >>> import torch
        >>> rule = AdamWRule(
        ...     factor=1.0, decay=1.0, beta1=0.5, alpha1=0.5, beta2=0.75, alpha2=0.25,
        ...     rate=0.125, correction=2.0, eps=0.0,
        ... )
        >>> [x.item() for x in adamw(rule, torch.tensor(2.0), torch.tensor(1.0), torch.zeros(()), torch.zeros(()))]
        [0.9375, 1.0, 1.0]
    """
    g = gradient * rule.factor
    m = first * rule.beta1 + g * rule.alpha1
    v = second * rule.beta2 + (g * g) * rule.alpha2
    root = v.double().sqrt().float()
    w = weight * rule.decay - (m / (root * rule.correction + rule.eps)) * rule.rate
    return w, m, v


def sgd(rule: SGDRule, gradient: Tensor, weight: Tensor, momentum: Tensor | None = None) -> tuple[Tensor, ...]:
    """Gradient descent, with momentum if there is a moment, as `SGDRule` writes it.

    Example:
        >>> import torch
        >>> rule = SGDRule(
        ...     factor=1.0, weight_decay=0.0, momentum=0.5, alpha=1.0, nesterov=False, is_first=False, lr=0.25
        ... )
        >>> [x.item() for x in sgd(rule, torch.tensor(1.0), torch.tensor(1.0), torch.tensor(2.0))]
        [0.5, 2.0]
    """
    g = gradient * rule.factor
    if rule.weight_decay:
        g = g + weight * rule.weight_decay
    if momentum is None:
        return (weight - g * rule.lr,)
    b = g if rule.is_first else momentum * rule.momentum + g * rule.alpha
    direction = g + b * rule.momentum if rule.nesterov else b
    return weight - direction * rule.lr, b
