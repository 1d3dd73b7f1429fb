"""From a cast's parameters to what the kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .._contract import E4M3_MAX, CastParameters
from . import _native

_ROUNDINGS = {
    "nearest-even": _native.Rounding.nearest_even,
    "toward-zero": _native.Rounding.toward_zero,
    "stochastic": _native.Rounding.stochastic,
}
_GRANULARITIES = {
    "none": _native.Granularity.none,
    "tensor": _native.Granularity.tensor,
    "row": _native.Granularity.row,
    "mx": _native.Granularity.block,
    "two-level": _native.Granularity.block,
}
_RULES = {
    "exact": _native.ScaleRule.floor,  # not read: only blocks have a rule
    "floor": _native.ScaleRule.floor,
    "ceil": _native.ScaleRule.ceil,
    "rceil": _native.ScaleRule.rceil,
    "even": _native.ScaleRule.even,
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A cast as the kernels take it.

    Attributes:
        cast: grid, rounding, granularity and rule.
        element: the grid alone.
        encoding: how its values are stored as codes.
        rule: how a block's scale comes from its largest magnitude.
        blocks: whether there are block scales.
    """

    cast: _native.Cast
    element: _native.Element
    encoding: _native.Encoding
    rule: _native.ScaleRule
    blocks: bool


@lru_cache(maxsize=1024)
def plan_of(parameters: CastParameters, *, scaled: bool) -> Plan:
    """The plan of a cast; ``scaled=False`` gives that of its elements on their own.

    Example:
        >>> from mixprec.specs import Cast, Granularity
        >>> from mixprec.kernels import cast_parameters
        >>> plan_of(cast_parameters(Cast(element="bf16", granularity=Granularity("none"))), scaled=True).blocks
        False
    """
    element = _native.Element(
        mantissa_bits=parameters.mantissa_bits,
        min_exponent=parameters.min_exponent,
        max_exponent=parameters.max_exponent,
        max_value=parameters.max_value,
        overflow=parameters.infinity_value,
        negative_zero=parameters.signed_zero,
    )
    two_level = parameters.scaling == "two-level"
    rule = _native.ScaleRule.two_level if two_level else _RULES[parameters.rule]
    cast = _native.Cast(
        element=element,
        rounding=_ROUNDINGS[parameters.rounding],
        granularity=_GRANULARITIES[parameters.scaling] if scaled else _native.Granularity.none,
        outer=parameters.outer,
        reduction=parameters.reduction,
        rule=rule,
        target=parameters.target,
        scale_max=E4M3_MAX if two_level else 1.0,
    )
    return Plan(
        cast=cast,
        element=element,
        encoding=_encoding(parameters),
        rule=rule,
        blocks=scaled and parameters.scaling in ("mx", "two-level"),
    )


def _encoding(parameters: CastParameters) -> _native.Encoding:
    return _native.Encoding(
        bits=parameters.bits,
        integer=parameters.integer,
        nan=max(parameters.nan_code, 0),
        infinity=max(parameters.infinity_code, 0),
    )
