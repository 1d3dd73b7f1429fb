"""What an optimizer's step refuses, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._optimizer_contract import AdamWRule, Rule, SGDRule, Slot
from ._stored_checks import FLOATS, check_weight, described

_CPU = torch.device("cpu")


def check_gradients(gradients: Sequence[Tensor]) -> None:
    """Refuse other dtypes, sparse tensors and several devices."""
    device = gradients[0].device
    if are_floats(gradients) and all_lie_on(device, gradients):
        return
    for i, gradient in enumerate(gradients):
        _check_gradient(gradient, i)
        if not _lies_on(device, gradient):
            raise ValueError(
                f"gradient {i} lies on {gradient.device}, gradient 0 on {device}: expected one device; sum the squares "
                "of each device's gradients in a call of its own"
            )


def check_slots(slots: Sequence[Slot], rule: Rule) -> None:
    """Refuse slots that do not fit the rule or each other."""
    expected, device = moment_count(rule), slots[0].weight.weight.device
    for i, slot in enumerate(slots):
        gradient, stored, moments = slot.gradient, slot.weight, slot.moments
        weight = stored.weight
        _check_gradient(gradient, i)
        if weight.dtype != torch.float32 or stored.extra is not None:
            check_weight(stored)  # a parameter may have other data than when it was described
        if not (_same_shape(gradient, weight) and _lies_on(device, gradient) and _lies_on(device, weight)):
            raise ValueError(
                f"slot {i}: the gradient is {described(gradient)}, the weight {described(weight)}: expected one shape, "
                f"and for all slots one device, here {device}; step each device's slots in a call of its own"
            )
        if len(moments) != expected:
            raise ValueError(f"slot {i} has {len(moments)} moments, this {type(rule).__name__} takes {expected}")
        count = weight.numel()
        for moment in moments:
            values = moment.values
            if values.numel() != count or not _lies_on(device, values):
                raise ValueError(
                    f"slot {i}: a moment is {described(values)}, the weight {described(weight)}: expected as many "
                    "elements on one device"
                )


def are_floats(gradients: Sequence[Tensor]) -> bool:
    """Whether all are dense and widen to fp32 exactly; quicker for many of them than to look at one after the other."""
    return {gradient.dtype for gradient in gradients} <= FLOATS and {g.layout for g in gradients} <= {torch.strided}


def _check_gradient(gradient: Tensor, i: int) -> None:
    """Refuse what cannot be widened to fp32 exactly."""
    if gradient.dtype not in FLOATS or gradient.layout != torch.strided:
        raise TypeError(
            f"gradient {i} is {gradient.dtype}, {gradient.layout}: expected a dense float32, bfloat16 or float16 "
            "tensor; a sparse or float64 gradient is left to an optimizer of torch"
        )


def all_lie_on(device: torch.device, tensors: Sequence[Tensor]) -> bool:
    """Whether all tensors lie there."""
    if device == _CPU:
        return {tensor.is_cpu for tensor in tensors} <= {True}
    return {tensor.device for tensor in tensors} <= {device}


def _lies_on(device: torch.device, tensor: Tensor) -> bool:
    """Whether a tensor lies there; to compare devices takes several times as long as to ask whether it is the CPU."""
    return tensor.is_cpu if device == _CPU else tensor.device == device


def _same_shape(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have one shape, asked in the quickest way."""
    return a.numel() == b.numel() and a.ndim == b.ndim and (a.ndim < 2 or a.shape == b.shape)


def moment_count(rule: Rule) -> int:
    """How many moments a rule takes of each slot."""
    if isinstance(rule, AdamWRule):
        return 2
    if isinstance(rule, SGDRule):  # pyright: ignore[reportUnnecessaryIsInstance]  # for callers without types
        return 1 if rule.momentum else 0
    raise TypeError(f"got a rule of type {type(rule).__name__}, expected AdamWRule or SGDRule")
