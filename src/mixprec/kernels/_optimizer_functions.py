"""The public functions of an optimizer's step: each checks its arguments and calls the backend of their device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from . import _optimizer_checks as checks
from ._contract import Draw
from ._no_values import has_no_values
from ._optimizer_contract import Rule, Slot, StoredMoment, StoredWeight
from ._registry import optimizer_backend
from ._stored_checks import check_value, check_weight


def gradient_squares(gradients: Sequence[Tensor]) -> Tensor:
    """Sum of squares of each gradient, in one reading; a backend's sums are the reference's, bit for bit.

    Args:
        gradients: dense fp32, bf16 or fp16 tensors on one device, any shapes and strides.

    Returns:
        fp64 ``[len(gradients)]`` on their device; not finite if and only if an element of that gradient is not.

    Raises:
        TypeError: a gradient of another dtype, or a sparse one.
        ValueError: gradients on several devices.

    Example:
        >>> gradient_squares([torch.tensor([3.0, 4.0]), torch.tensor([float("inf")])]).tolist()
        [25.0, inf]
    """
    if not gradients:
        return torch.zeros(0, dtype=torch.float64)
    checks.check_gradients(gradients)
    return optimizer_backend(gradients[0].device.type).gradient_squares(gradients)


def optimizer_step(slots: Sequence[Slot], rule: Rule) -> None:
    """Update weights and moments in place, each in one pass.

    Args:
        slots: what each parameter brings, on one device; a weight that is not contiguous is copied and copied back.
        rule: one step of the optimizer, for all slots.

    Raises:
        TypeError: a dtype that does not fit the way of keeping, a sparse or fp64 gradient, or an unknown rule.
        ValueError: an unknown way of keeping, or tensors whose shapes, devices or number do not fit.

    Example:
        >>> from mixprec.kernels import SGDRule, Slot, StoredWeight
        >>> weight = torch.tensor([1.0, 2.0])
        >>> rule = SGDRule(
        ...     factor=0.5, weight_decay=0.0, momentum=0.0, alpha=1.0, nesterov=False, is_first=False, lr=0.5
        ... )
        >>> optimizer_step([Slot(torch.ones(2), StoredWeight("plain", weight), ())], rule)
        >>> weight.tolist()
        [0.75, 1.75]
    """
    if not slots:
        return
    checks.check_slots(slots, rule)
    backend = optimizer_backend(slots[0].weight.weight.device.type)
    straight = [slot if _is_contiguous(slot.weight) else replace(slot, weight=_copied(slot.weight)) for slot in slots]
    with torch.no_grad():
        backend.optimizer_step(straight, rule)
        for slot, stepped in zip(slots, straight, strict=True):
            if stepped is not slot:
                _copy_back(slot.weight, stepped.weight)
    torch.autograd.graph.increment_version([slot.weight.weight for slot in slots])


def load_weight(stored: StoredWeight) -> Tensor:
    """The fp32 value of a weight.

    Args:
        stored: the weight as it lies in memory.

    Returns:
        fp32, of its shape, fresh and contiguous: exact, but that a compensated sum is rounded once.

    Raises:
        TypeError, ValueError: tensors that do not fit the way of keeping.

    Example:
        >>> from mixprec.kernels import StoredWeight
        >>> load_weight(StoredWeight("plain", torch.ones(2, dtype=torch.bfloat16))).tolist()
        [1.0, 1.0]
    """
    check_weight(stored)
    with torch.no_grad():
        if has_no_values(stored.weight):
            return torch.empty_like(stored.weight, dtype=torch.float32, memory_format=torch.contiguous_format)
        straight = stored if _is_contiguous(stored) else _copied(stored)
        return optimizer_backend(stored.weight.device.type).load_weight(straight)


def store_weight(stored: StoredWeight, value: Tensor, draw: Draw | None = None) -> None:
    """Keep an fp32 value: the weight's tensors are written.

    Args:
        stored: the weight as it lies in memory.
        value: fp32, as many numbers as the weight has.
        draw: random bits of stochastic rounding.

    Raises:
        TypeError, ValueError: tensors that do not fit the way of keeping, or another value than as many fp32 ones.

    Example:
        >>> from mixprec.kernels import StoredWeight
        >>> kept = StoredWeight("kahan", torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.bfloat16))
        >>> store_weight(kept, torch.tensor([1.001953125]))
        >>> kept.weight.item(), kept.extra.item(), load_weight(kept).item()
        (1.0, 0.001953125, 1.001953125)
    """
    check_weight(stored)
    check_value(value, stored.weight)
    if has_no_values(stored.weight):
        return
    straight = stored if _is_contiguous(stored) else _copied(stored)
    with torch.no_grad():
        backend = optimizer_backend(stored.weight.device.type)
        backend.store_weight(straight, value.detach().reshape(stored.weight.shape).contiguous(), draw or Draw())
        if straight is not stored:
            _copy_back(stored, straight)
    torch.autograd.graph.increment_version([stored.weight])


def load_moment(stored: StoredMoment) -> Tensor:
    """The fp32 values of a moment.

    Args:
        stored: the moment as it lies in memory.

    Returns:
        fp32, fresh: of the shape of its values (8 bits: ``[n]``).

    Example:
        >>> from mixprec.kernels import StoredMoment
        >>> load_moment(StoredMoment("bf16", torch.ones(2, dtype=torch.bfloat16))).tolist()
        [1.0, 1.0]
    """
    if has_no_values(stored.values):
        return torch.empty_like(stored.values, dtype=torch.float32)
    return optimizer_backend(stored.values.device.type).load_moment(stored)


def store_moment(stored: StoredMoment, value: Tensor) -> None:
    """Keep fp32 values of a moment: its tensors are written.

    Args:
        stored: the moment as it lies in memory.
        value: fp32, as many as it has.

    Raises:
        ValueError: another value than as many fp32 ones.

    Example:
        >>> from mixprec.kernels import StoredMoment
        >>> kept = StoredMoment("bf16", torch.zeros(1, dtype=torch.bfloat16))
        >>> store_moment(kept, torch.tensor([0.1]))
        >>> kept.values.item()
        0.10009765625
    """
    check_value(value, stored.values)
    if has_no_values(stored.values):
        return
    optimizer_backend(stored.values.device.type).store_moment(stored, value.detach().contiguous())


def _tensors(stored: StoredWeight) -> Iterable[Tensor]:
    return (stored.weight,) if stored.extra is None else (stored.weight, stored.extra)


def _is_contiguous(stored: StoredWeight) -> bool:
    return stored.weight.is_contiguous() and (stored.extra is None or stored.extra.is_contiguous())


def _copied(stored: StoredWeight) -> StoredWeight:
    extra = None if stored.extra is None else stored.extra.contiguous()
    return StoredWeight(stored.kind, stored.weight.detach().contiguous(), extra)


def _copy_back(stored: StoredWeight, copied: StoredWeight) -> None:
    for kept, copy in zip(_tensors(stored), _tensors(copied), strict=True):
        if copy is not kept:
            kept.copy_(copy)
