"""What a recipe means for a model on paper: bytes of a parameter by kind and of a saved number, and the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...formats import get_format
from ...specs import Cast, Layer, Recipe
from ._shape import TransformerShape

_MOMENTS = {"fp32": 4.0, "bf16": 2.0}
#: What matrix units with block scales call an element under blocks of a size and a scale.
_BLOCK_FORMATS: Mapping[tuple[str, object], str] = {
    **{(element, (32, "e8m0")): "mxfp8" for element in ("e4m3", "e5m2")},
    **{(element, (32, "e8m0")): "mxfp6" for element in ("e2m3", "e3m2")},
    ("e2m1", (32, "e8m0")): "mxfp4",
    ("e2m1", (16, "e4m3")): "nvfp4",
}
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
    def of(cls, recipe: Recipe, shape: TransformerShape, moments: int) -> PaperPrecision:
        """What a recipe gives the linear layers in the middle of a model, with so many moments of the optimizer."""
        compute = 4.0 if recipe.compute_dtype == "fp32" else 2.0
        weight = 4.0 if recipe.weights == "master" else compute
        each = _MOMENTS.get(recipe.moments.kind, 1.0 + 4.0 / recipe.moments.block)
        middle = Layer(
            path=f"model.layers.{shape.layers // 2}.mlp.down_proj",
            type="Linear",
            features=(shape.hidden, shape.feed_forward),
            block=shape.layers // 2,
            blocks=shape.layers,
        )
        rule = recipe.rule_for(middle)
        precision = None if rule is None else rule.precision
        saved = None if precision is None else precision.wgrad_input
        fprop = None if precision is None else precision.fprop_input
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
    block = (cast.granularity.reduction, cast.scale) if cast.granularity.kind == "block" else None
    return _BLOCK_FORMATS.get((cast.element, block), cast.element)
