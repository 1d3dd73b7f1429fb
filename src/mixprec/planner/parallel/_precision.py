"""What a recipe means for a model on paper: bytes of a parameter by kind, of a saved number, and the format multiplied."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import get_format
from ...specs import Cast, Recipe

_MOMENTS = {"fp32": 4.0, "bf16": 2.0}
_EXTRAS = {"split": 2.0, "kahan": 2.0}


@dataclass(frozen=True, kw_only=True)
class PaperPrecision:
    """Bytes, and the format of most products.

    Attributes:
        weight: of a parameter.
        master: beside it.
        moments: of both together.
        gradient: of a parameter's gradient.
        compute: of an activation between products.
        saved: of an input that a linear layer saves for its weight's gradient.
        residual: of a number of the residual stream.
        format: that products take, as hardware names its rates.
    """

    weight: float
    master: float
    moments: float
    gradient: float
    compute: float
    saved: float
    residual: float
    format: str

    @classmethod
    def of(cls, recipe: Recipe, moments: int) -> PaperPrecision:
        """A recipe's, with so many moments of the optimizer."""
        compute = 4.0 if recipe.compute_dtype == "fp32" else 2.0
        weight = 4.0 if recipe.weights == "master" else compute
        each = _MOMENTS.get(recipe.moments.kind, 1.0 + 4.0 / recipe.moments.block)
        precisions = [rule.precision for rule in recipe.rules if rule.precision is not None]
        saved = precisions[0].wgrad_input if precisions else None
        fprop = precisions[0].fprop_input if precisions else None
        return cls(
            weight=weight,
            master=_EXTRAS.get(recipe.weights, 0.0),
            moments=moments * each,
            gradient=weight,
            compute=compute,
            saved=compute if saved is None else min(_bytes_of(saved), compute),
            residual=compute if recipe.residual != "fp32" else 4.0,
            format=recipe.compute_dtype if fprop is None else _rate_name(fprop),
        )


def _bytes_of(cast: Cast) -> float:
    """An element's bits, and its share of a block's scale."""
    bits = float(get_format(cast.element).bits)
    if cast.granularity.kind == "block":
        block = max(cast.granularity.outer, 1) * max(cast.granularity.reduction, 1)
        bits += (32 if cast.scale == "fp32" else 8) / block
    return bits / 8


def _rate_name(cast: Cast) -> str:
    """The name of the rate that a device needs to multiply a cast's values: a block format's, or the element's."""
    if cast.granularity.kind != "block":
        return cast.element
    if cast.element == "e2m1" and cast.scale == "e4m3":
        return "nvfp4"
    names = {"e4m3": "mxfp8", "e5m2": "mxfp8", "e2m3": "mxfp6", "e3m2": "mxfp6", "e2m1": "mxfp4"}
    return names.get(cast.element, cast.element) if cast.scale == "e8m0" else cast.element
