"""Rules that named recipes share."""

from __future__ import annotations

from dataclasses import replace

from ._layer import OPERANDS, LayerPrecision
from ._rule import Rule


def all_but_the_head(
    precision: LayerPrecision, *, head: LayerPrecision | None = None, convolutions: LayerPrecision | None = None
) -> tuple[Rule, ...]:
    """Give every layer with a weight the precision, but the head, which all published recipes leave out.

    Args:
        precision: of every other layer.
        head: of the head; ``None``: the compute dtype.
        convolutions: of convolutions, where they are to have another one; else ``precision`` less its transforms:
            along a convolution's positions a transform needs a copy of the input for every tap of the kernel.
    """
    plain = _without_transforms(precision)
    convolutions = convolutions or (plain if plain != precision else None)
    kinds = ("Conv1d", "Conv2d", "Conv3d") if convolutions else ()
    return (
        Rule(head=True, precision=head, required=False),
        *(Rule(type=kind, precision=convolutions, required=False) for kind in kinds),
        Rule(precision=precision, required=False),
    )


def _without_transforms(precision: LayerPrecision) -> LayerPrecision:
    casts = {name: cast for name in OPERANDS if (cast := precision.operand(name)) is not None}
    return replace(precision, **{name: replace(cast, transform=0, signs="none") for name, cast in casts.items()})
