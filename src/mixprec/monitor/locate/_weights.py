"""Faults that were there before the step: in its input, or in the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from ._fault import Fault
from ._values import facts_of, is_finite

#: A weight this many times the second largest of its tensor, and at least this large, was no update's doing: a step
#: moves many elements, a flipped exponent bit one, by 2^32 and more.
_FLIPPED = 1e6
#: Weights beyond this have diverged.
_DIVERGED = 1e6
#: An input beyond this is no measurement that a model takes.
_HUGE = 1e4


def bad_input(batches: Iterable[Iterable[Tensor]], step: int) -> Fault | None:
    """An argument of the model that holds NaN or inf; -inf beside nothing positive is a mask."""
    for number, tensors in enumerate(batches):
        for place, tensor in enumerate(tensors):
            if is_finite(tensor):
                continue
            facts = facts_of(tensor)
            if facts.nans or facts.positive or facts.high > 0.0:
                return _input_fault(step, number, place, tensor, facts.kind)
    return None


def huge_input(batches: Iterable[Iterable[Tensor]], step: int) -> Fault | None:
    """An argument of the model with values that no ordinary batch has; asked only where something overflowed."""
    for number, tensors in enumerate(batches):
        for place, tensor in enumerate(tensors):
            if tensor.is_floating_point() and tensor.numel() and facts_of(tensor).high > _HUGE:
                return _input_fault(step, number, place, tensor, "inf")
    return None


def _input_fault(step: int, number: int, place: int, tensor: Tensor, kind: str) -> Fault:
    return Fault(
        step=step,
        site="<input>",
        operation="",
        direction="forward",
        operand=f"argument {place}",
        kind=kind,
        made=facts_of(tensor),
        operands=((f"argument {place}", facts_of(tensor)),),
        cause="bad input",
        micro_batch=number,
    )


@torch.no_grad()
def bad_weight(params: Mapping[str, Tensor], step: int) -> Fault | None:
    """A parameter that is not finite, or of which one element lies far from all others; or that is far too large."""
    suspects = {name: p for name, p in params.items() if p.is_floating_point() and p.numel() and not p.is_meta}
    not_finite = {name: p for name, p in suspects.items() if not is_finite(p)}
    if not_finite:
        name, p = next(iter(not_finite.items()))
        facts = facts_of(p)
        is_one = len(not_finite) == 1 and facts.nans + facts.positive + facts.negative == 1
        return _weight_fault(step, name, p, "flipped bit" if is_one else "diverged weights")
    for name, p in suspects.items():
        largest = p.detach().abs().flatten().float().topk(min(2, p.numel())).values.tolist()
        second = largest[1] if len(largest) > 1 else 0.0
        if largest[0] >= _FLIPPED and (largest[0] > _FLIPPED * max(second, 1.0) or second == 0.0):
            return _weight_fault(step, name, p, "flipped bit")
        if largest[0] >= _DIVERGED:
            return _weight_fault(step, name, p, "diverged weights")
    return None


def _weight_fault(step: int, name: str, p: Tensor, cause: str) -> Fault:
    facts = facts_of(p)
    return Fault(
        step=step,
        site=name,
        operation="",
        direction="forward",
        operand="weight",
        kind=facts.kind or "inf",
        made=facts,
        operands=(("weight", facts),),
        cause=cause,
        detail="" if math.isnan(facts.amax) else f"largest magnitude {facts.amax:.4g}",
    )
