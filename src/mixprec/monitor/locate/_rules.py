"""The likely cause of a bad value, by what the operation did: one rule for each, the first that holds."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import causes
from ._evidence import AT_END, FLUSHED, REDUCTIONS_OF_MASKS, SPREAD, Evidence, Operand
from ._operations import writes_infinity
from ._range import limit_of
from .causes import Cause

#: An operand and the cause that it shows; ``None``: the rule does not hold.
Judged = tuple[Cause, Operand | None] | None
Rule = Callable[[Evidence], Judged]

_SUMS = ("add", "add_", "sub", "sub_", "baddbmm", "addmm", "_to_copy", "masked_fill", "where")
#: Share of a format's range from which a constant is taken for the mask of someone who wrote its minimum.
_MASK_SHARE = 0.9
_NORMS = ("layer_norm", "batch_norm", "group_norm", "rms_norm", "instance_norm")
_DIVISIONS = ("div", "div_", "reciprocal", "reciprocal_", "rsqrt", "rsqrt_", "pow", "pow_")
_LOGS = ("log", "log_", "log2", "log10", "xlogy", "logit")
_ENTROPIES = ("binary_cross_entropy", "binary_cross_entropy_backward")
#: log1p is infinite at -1, atanh, logit and the cross-entropy of a probability at the ends of their range.
_ENDS = {"log1p": (-1.0,), "atanh": (-1.0, 1.0), "logit": (0.0, 1.0), **dict.fromkeys(_ENTROPIES, (0.0, 1.0))}
_DOMAINS = {
    "log": (0.0, math.inf),
    "log2": (0.0, math.inf),
    "log10": (0.0, math.inf),
    "log1p": (-1.0, math.inf),
    "sqrt": (0.0, math.inf),
    "rsqrt": (0.0, math.inf),
    "acos": (-1.0, 1.0),
    "asin": (-1.0, 1.0),
    "atanh": (-1.0, 1.0),
    "acosh": (1.0, math.inf),
    "logit": (0.0, 1.0),
    "pow": (0.0, math.inf),
}
_ROOTS = ("Sqrt", "Rsqrt", "Pow", "NormBackward", "LinalgVectorNorm", "Acos", "Asin", "Acosh", "Std")
_QUOTIENTS = ("Log", "Div", "Reciprocal", "BinaryCrossEntropy", "Xlogy", "Logit")
#: Squares of larger values leave fp32 inside a fused norm.
_SQUARABLE = 1e18

#: Reciprocal of a standard deviation from which a norm's backward pass divides by nothing (an eps of 1e-8).
_STEEP = 1e4


def judge(evidence: Evidence) -> tuple[Cause, Operand | None]:
    """The likely cause, and the operand that shows it."""
    for rule in RULES:
        judged = rule(evidence)
        if judged is not None:
            return judged
    return causes.UNKNOWN, evidence.widest()


def _written(evidence: Evidence) -> Judged:
    """The program has given the infinity or the NaN as a number."""
    if not writes_infinity(evidence.numbers):
        return None
    return causes.WRITTEN, evidence.operands[0] if evidence.operands else None


def _of_mask(evidence: Evidence) -> Judged:
    """Operands had infinities that were meant, or were given: this operation has let them out."""
    sick = next((x for x in evidence.operands if x.values.bad), None)
    return None if sick is None or evidence.takes_masks or evidence.result.nan else (causes.WRITTEN, sick)


def _masked_row(evidence: Evidence) -> Judged:
    """A softmax over a row of -inf; or the sum that makes one, of a score and the format's lowest value."""
    if evidence.takes_masks:
        masked = next((x for x in evidence.operands if x.has_masked_row or x.values.minus_inf), None)
        shows = evidence.result.nan or evidence.name in REDUCTIONS_OF_MASKS
        return (causes.MASKED_ROW, masked) if masked is not None and shows else None
    if not evidence.is_forward or evidence.name not in _SUMS or not evidence.result.minus_inf:
        return None
    lowest = min(evidence.operands, key=lambda x: x.values.low, default=None)
    if lowest is None or evidence.result.plus_inf:
        return None
    is_mask = any(-limit_of(d) <= lowest.values.low <= -_MASK_SHARE * limit_of(d) for d in ("fp16", "bf16", "fp32"))
    is_constant = evidence.name == "_to_copy" and lowest.values.low in (-1e9, -1e10, -1e6, -1e30, -1e5)
    return (causes.MASKED_ROW, lowest) if is_mask or is_constant else None


def _flushed_variance(evidence: Evidence) -> Judged:
    """A norm that divides by nothing: a fused one on rows that do not vary, or a division inside of one."""
    if any(norm in evidence.name for norm in _NORMS):
        widest = evidence.widest()
        if widest is not None and widest.values.amax >= _SQUARABLE:
            return None
        if not evidence.is_forward and not any("std" in x.name and x.values.amax >= _STEEP for x in evidence.operands):
            return None
        return causes.FLUSHED_VARIANCE, widest
    zero = evidence.with_zero()
    if zero is None or not _divides(evidence):
        return None
    if evidence.is_in_norm or any(SPREAD in operand.tags for operand in evidence.operands):
        return causes.FLUSHED_VARIANCE, zero
    return None


def _divides(evidence: Evidence) -> bool:
    if evidence.is_forward:
        return evidence.name in _DIVISIONS
    return evidence.name in (*_DIVISIONS, "mul", "mul_") and evidence.node.startswith((*_ROOTS, *_QUOTIENTS))


def _outside_domain(evidence: Evidence) -> Judged:
    """NaN of a function that is not defined there."""
    domain = _DOMAINS.get(evidence.name.rstrip("_"))
    if domain is None or not evidence.result.nan or not evidence.operands or not evidence.is_forward:
        return None
    operand = evidence.operands[0]
    inside = domain[0] <= operand.values.low and operand.values.high <= domain[1]
    return None if inside else (causes.OUTSIDE_DOMAIN, operand)


def _derivative_at_zero(evidence: Evidence) -> Judged:
    """The backward pass of a root or a norm, at zero."""
    if evidence.is_forward or not evidence.node.startswith(_ROOTS):
        return None
    zero = evidence.with_zero()
    return None if zero is None else (causes.DERIVATIVE_AT_ZERO, zero)


def _zero(evidence: Evidence) -> Judged:
    """A logarithm of a zero, or a division by one."""
    name = evidence.name
    quotient = evidence.node.startswith(_QUOTIENTS) and not evidence.is_forward
    if not (name in _LOGS or name in _DIVISIONS or name in _ENDS or quotient):
        return None
    operand = _end(evidence) if name in _ENDS else _divisor(evidence)
    if name.startswith("div") and evidence.numbers.get("other") == 0.0:
        return causes.ZERO, evidence.widest()
    if operand is None:
        return None
    return (causes.FLUSHED_ZERO if FLUSHED in operand.tags else causes.ZERO), operand


def _end(evidence: Evidence) -> Operand | None:
    ends = _ENDS[evidence.name]
    inputs = [x for x in evidence.operands if x.name in ("self", "input")]
    return next((x for x in inputs if x.values.low in ends or x.values.high in ends), None)


def _divisor(evidence: Evidence) -> Operand | None:
    """The operand that must not be zero: the last one of a quotient, the first of everything else."""
    order = reversed(evidence.operands) if evidence.name.startswith("div") else iter(evidence.operands)
    return next((operand for operand in order if operand.values.zeros), None)


def _saturated_probability(evidence: Evidence) -> Judged:
    """The gradient of a cross-entropy of a probability that is 0 or 1: divided by all but nothing."""
    steep = next((operand for operand in evidence.operands if AT_END in operand.tags), None)
    return None if steep is None else (causes.ZERO, steep)


def _saturated_scale(evidence: Evidence) -> Judged:
    """A cast under a delayed scale that is too small for what came."""
    return (causes.SATURATED_SCALE, evidence.widest()) if evidence.name.startswith("mixprec::delayed") else None


def _overflow(evidence: Evidence) -> Judged:
    """Finite operands whose sum, product or rounding leaves the range."""
    cause = causes.ACTIVATION_OVERFLOW if evidence.is_forward else causes.GRADIENT_OVERFLOW
    return cause, evidence.widest()


RULES: tuple[Rule, ...] = (
    _written,
    _masked_row,
    _of_mask,
    _flushed_variance,
    _outside_domain,
    _derivative_at_zero,
    _zero,
    _saturated_probability,
    _saturated_scale,
    _overflow,
)
