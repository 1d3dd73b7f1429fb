"""From what a watched pass has shown to the first fault, told with its likely cause."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from . import causes
from ._evidence import Evidence, Operand
from ._fault import INPUT, LOSS, Fault
from ._lineage import Birth
from ._range import Range, limit_of
from ._roles import Saturation
from ._rules import judge
from ._weights import OddWeight, odd_weights
from .causes import Cause

#: Causes behind which a weight, or the input, may be.
_FOLLOWING = (
    causes.ACTIVATION_OVERFLOW,
    causes.GRADIENT_OVERFLOW,
    causes.FLUSHED_VARIANCE,
    causes.OUTSIDE_DOMAIN,
    causes.LOSS_FAULT,
    causes.UNKNOWN,
)
#: What the arguments of torch's products are called.
_NAMES = {"self": "input", "mat1": "input", "batch1": "input", "x": "input", "query": "input"}
_UNSEEN = "a kernel that torch does not show"
_UNTRIED = (
    "whether it goes away at a smaller loss scale is not known: the backward pass does not begin at a loss; "
    "call loss.backward()"
)
#: An input is taken for the cause of an overflow from this magnitude on.
LARGE_INPUT = 1e4
#: What the gradients are divided by to try whether a scale may be at fault that nobody has told of.
TRIED_SCALE = 2.0**16


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What is known of the step beside the pass.

    Attributes:
        model: the root.
        step: applied steps before it.
        inputs: ranges of what the model was called with.
        scale: of the loss; ``None``: nobody knows.
        losses_are_finite: whether the losses are, where that is known.
        can_be_tried: whether the pass can be run again by this process alone.
        is_finite_at: whether the pass is finite were the outputs' gradients smaller by this factor; ``None``: that
            cannot be told.
        looks_ordinary: whether an overflow of a scaled gradient would be the dynamic scale's own doing.
    """

    model: nn.Module
    step: int
    inputs: tuple[Range, ...]
    scale: float | None
    losses_are_finite: bool
    is_finite_at: Callable[[float], bool | None]
    can_be_tried: bool = True
    looks_ordinary: bool = False


def diagnose(birth: Birth, known: Circumstances) -> Fault:
    """The fault that a birth is, with its cause."""
    fault = _of_source(birth, known) if birth.evidence is None else _of_operation(birth.evidence, known)
    odd = odd_weights(known.model) if _may_follow(fault) else []
    if odd:
        return _of_weight(fault, odd[0])
    if fault.cause is causes.ACTIVATION_OVERFLOW and any(x.amax >= LARGE_INPUT for x in known.inputs):
        largest = max(known.inputs, key=lambda x: x.amax)
        detail = f"the model was called with values from {largest.low:.4g} to {largest.high:.4g}"
        return replace(fault, cause=causes.BAD_INPUT, detail=detail)
    if fault.cause is causes.GRADIENT_OVERFLOW:
        return _of_gradient(fault, known)
    return fault


def saturation_fault(saturation: Saturation, step: int) -> Fault:
    """A cast that saturated, where nothing else was bad."""
    laundered = bool(saturation.births)
    return Fault(
        site=saturation.site,
        operation=f"cast {saturation.cast}",
        direction="backward" if saturation.role == "grad_output" else "forward",
        operand=saturation.role,
        kind="saturated",
        dtype=saturation.cast.partition("[")[0],
        shape=saturation.values.shape,
        low=saturation.values.low,
        high=saturation.values.high,
        limit=saturation.limit,
        cause=causes.LAUNDERED if laundered else causes.SATURATED_SCALE,
        step=step,
    )


def laundered(saturation: Saturation, birth: Birth, known: Circumstances) -> Fault:
    """The infinity that a saturating cast has hidden: where it was made, and where it was hidden."""
    fault = diagnose(birth, known)
    where = f"{saturation.site} ({saturation.role})"
    detail = f"the saturating cast {saturation.cast} in {where} has made a finite number of it"
    return replace(fault, cause=causes.LAUNDERED, detail="; ".join(filter(None, (f"it is {fault.cause.name}", detail))))


def not_reproduced(detail: str, step: int) -> Fault:
    """No site: the reason why there is none."""
    return Fault(
        site="",
        operation="",
        direction="",
        operand="",
        kind="",
        dtype="",
        shape=(),
        low=0.0,
        high=0.0,
        limit=0.0,
        cause=causes.NOT_REPRODUCED,
        step=step,
        detail=detail,
    )


def _may_follow(fault: Fault) -> bool:
    return fault.cause in _FOLLOWING or fault.cause in (causes.DIVERGED, causes.FLIPPED_BIT)


def _of_source(birth: Birth, known: Circumstances) -> Fault:
    """What was bad before the pass began."""
    kind, _, name = birth.name.partition(" ")
    values = birth.values
    cause: Cause = causes.UNKNOWN
    if kind in ("parameter", "buffer"):
        cause = causes.DIVERGED
    elif kind == "input" or (not kind and birth.site == LOSS):
        cause = causes.BAD_INPUT
    elif kind == "constant":
        fault = _fault(known.step, birth.site, "constant", values, values, causes.WRITTEN)
        return replace(fault, operation=birth.reader or "given", direction=birth.direction)
    elif kind == "output":
        return _of_output_gradient(birth, known)
    elif not kind:
        return _of_unseen(birth, known)
    site = INPUT if kind == "input" else birth.site
    return _fault(known.step, site, name.rpartition(".")[2] if kind != "input" else name, values, values, cause)


def _of_unseen(birth: Birth, known: Circumstances) -> Fault:
    """What a kernel has made that torch's dispatcher does not see: a converted layer's casts into memory of its own."""
    is_forward = birth.direction == "forward"
    if not known.can_be_tried:
        fault = _fault(known.step, birth.site, "", birth.values, birth.values, causes.OTHER_RANK)
        return replace(fault, direction=birth.direction)
    cause = causes.ACTIVATION_OVERFLOW if is_forward else causes.GRADIENT_OVERFLOW
    fault = _fault(known.step, birth.site, "input" if is_forward else "grad_output", birth.values, birth.values, cause)
    return replace(fault, operation=_UNSEEN, direction=birth.direction)


def _of_output_gradient(birth: Birth, known: Circumstances) -> Fault:
    """The gradient of an output that is finite: the loss has made it."""
    values = birth.values
    fault = _fault(known.step, LOSS, "grad_output", values, values, causes.LOSS_FAULT)
    too_high = (
        values is not None
        and not values.nan
        and values.dtype == "fp16"
        and known.scale is not None
        and known.scale > 1.0
        and known.losses_are_finite
    )
    fault = replace(fault, operation="backward", direction="backward")
    if not too_high:
        detail = "the model's outputs are finite, and the loss gives them this gradient"
        return replace(fault, detail=detail)
    detail = f"outputs and loss are finite, and the gradient, times {known.scale:g}, is beyond fp16"
    fault = replace(fault, cause=causes.LOSS_SCALE, limit=limit_of("fp16"), detail=detail)
    return replace(fault, is_ordinary=known.looks_ordinary)


def _fault(step: int, site: str, operand: str, result: Range | None, values: Range | None, cause: Cause) -> Fault:
    dtype = "" if result is None else result.dtype
    return Fault(
        site=site,
        operation="given",
        direction="forward",
        operand=operand,
        kind="" if result is None else result.kind,
        dtype=dtype,
        shape=() if values is None else values.shape,
        low=0.0 if values is None else values.low,
        high=0.0 if values is None else values.high,
        limit=math.inf,
        cause=cause,
        step=step,
    )


def _of_operation(evidence: Evidence, known: Circumstances) -> Fault:
    cause, operand = judge(evidence)
    name, values = _operand_of(evidence, operand)
    fault = _fault(known.step, evidence.site, name, evidence.result, values, cause)
    limit = limit_of(evidence.result.dtype)
    return replace(fault, operation=evidence.name, direction=evidence.direction, limit=limit)


def _operand_of(evidence: Evidence, operand: Operand | None) -> tuple[str, Range | None]:
    """The operand as a site names it, and its range."""
    role = "input" if evidence.is_forward else "grad_output"
    if role in evidence.roles:
        return role, evidence.roles[role]
    if operand is None:
        return role, None
    if not evidence.is_forward:
        return role, operand.values
    if operand.parameter:
        return operand.parameter.rpartition(".")[2], operand.values
    return _NAMES.get(operand.name, operand.name), operand.values


def _of_weight(fault: Fault, odd: OddWeight) -> Fault:
    """A weight is behind it."""
    where = f"{fault.reason}, made by {fault.operation} ({fault.direction})"
    values = replace(fault, operand=odd.operand, shape=odd.values.shape, low=odd.values.low, high=odd.values.high)
    if odd.is_flip:
        detail = f"element {odd.index} of {odd.name} is far beyond all others; it shows as {where}"
        return replace(values, site=odd.site, cause=causes.FLIPPED_BIT, detail=detail)
    detail = f"{odd.name} has values up to {odd.values.amax:.4g}, {odd.values.bad} not finite; it shows as {where}"
    return replace(values, site=odd.site, cause=causes.DIVERGED, detail=detail)


def _of_gradient(fault: Fault, known: Circumstances) -> Fault:
    """An overflow of the backward pass: the loss scale's, if it goes away at scale 1."""
    if not known.can_be_tried:
        return replace(
            fault, detail="whether it goes away at a smaller loss scale was not tried: the pass talks to other ranks"
        )
    tried = TRIED_SCALE if known.scale is None or known.scale <= 1.0 else known.scale
    is_finite = known.is_finite_at(tried)
    if is_finite is None:
        return replace(fault, detail=_UNTRIED)
    if known.scale is None or known.scale <= 1.0:
        told = "it is not known what the loss is multiplied by" if known.scale is None else "the loss scale is 1"
        less = f"were the gradients of the outputs {TRIED_SCALE:g} times smaller"
        if not is_finite:
            return replace(fault, detail=f"{told}; it would stay {less}")
        hint = ": give scale=, if the loss is scaled" if known.scale is None else ""
        return replace(fault, detail=f"{told}; the same backward pass would be finite {less}{hint}")
    if not is_finite:
        return replace(fault, detail=f"not the loss scale: it stays at a loss scale of 1 (now {known.scale:g})")
    detail = f"the same backward pass is finite at a loss scale of 1 (now {known.scale:g})"
    return replace(fault, cause=causes.LOSS_SCALE, is_ordinary=known.looks_ordinary, detail=detail)
