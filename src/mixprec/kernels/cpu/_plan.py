"""From a cast's parameters to what the kernels take."""

from __future__ import annotations

from functools import lru_cache

from .._parameters import CastParameters, ElementParameters
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
    "block": _native.Granularity.block,
}
_SCALES = {
    "none": _native.ScaleKind.none,
    "fp32": _native.ScaleKind.fp32,
    "power": _native.ScaleKind.power,
    "float": _native.ScaleKind.floating,
}
_RULES = {
    "exact": _native.ExponentRule.floor,  # not read: only powers of two have a rule
    "floor": _native.ExponentRule.floor,
    "ceil": _native.ExponentRule.ceil,
    "rceil": _native.ExponentRule.rceil,
    "even": _native.ExponentRule.even,
    "quest": _native.ExponentRule.quest,
}


@lru_cache(maxsize=1024)
def native_cast(parameters: CastParameters, *, scaled: bool = True) -> _native.Cast:
    """A cast as the kernels take it; ``scaled=False`` gives that of its elements on their own.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels import cast_parameters
        >>> type(native_cast(cast_parameters(parse_cast("mxfp8")))).__name__
        'Cast'
    """
    scale_grid = parameters.scale_grid
    return _native.Cast(
        grid=_native_grid(parameters.grid),
        rounding=_ROUNDINGS[parameters.rounding],
        granularity=_GRANULARITIES[parameters.scaling if scaled else "none"],
        outer=parameters.outer,
        reduction=parameters.reduction,
        scale=_SCALES[parameters.scale if scaled else "none"],
        rule=_RULES[parameters.rule],
        target=parameters.target,
        second_target=parameters.second_target if scaled else 0.0,
        prescale=parameters.prescale,
        scale_grid=_native_grid(scale_grid) if scale_grid else None,
        scale_limit=parameters.scale_limit,
        transform=parameters.transform if scaled else 0,
    )


def _native_grid(grid: ElementParameters) -> _native.Grid:
    return _native.Grid(
        mantissa_bits=grid.mantissa_bits,
        min_exponent=grid.min_exponent,
        max_exponent=grid.max_exponent,
        max_value=grid.max_value,
        overflow=grid.infinity_value,
        negative_zero=grid.signed_zero,
        bits=grid.bits,
        is_signed=grid.integer or grid.sign_bits > 0,
        integer=grid.integer,
        nan_code=max(grid.nan_code, 0),
        infinity_code=max(grid.infinity_code, 0),
        table=_native.Table(list(grid.table), list(grid.table_codes)) if grid.table else None,
    )
