"""Which casts each site has now."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from ..specs import OPERANDS, LayerPrecision, parse_cast
from ._operand_cast import OperandCast, OperandCasts
from ._site import SITE, ConversionState, Site


def precisions_of(model: nn.Module, state: ConversionState) -> dict[str, LayerPrecision]:
    """The precision of every site that has casts, by its name, in the model's order; functions after modules.

    Of calls whose rule depends on their sizes, the first that a rule gives casts.
    """
    sites: list[Site] = [module.__dict__[SITE] for module in model.modules() if SITE in module.__dict__]
    sites += [] if state.functions is None else state.functions.sites
    found: dict[str, LayerPrecision] = {}
    for site in sites:
        if not site.casts.is_plain:
            found.setdefault(site.name, _precision(site.casts))
    return found


def _precision(casts: OperandCasts) -> LayerPrecision:
    present: dict[str, OperandCast | None] = {name: getattr(casts, name) for name in OPERANDS}
    operands = {name: parse_cast(cast.text) for name, cast in present.items() if cast is not None}
    return replace(LayerPrecision(accumulator=casts.accumulator), **operands)
