"""Rules that named recipes share."""

from __future__ import annotations

from ._layer import LayerPrecision
from ._rule import Rule


def all_but_the_head(
    precision: LayerPrecision, *, head: LayerPrecision | None = None, convolutions: LayerPrecision | None = None
) -> tuple[Rule, ...]:
    """Give every layer with a weight the precision, but the head, which suffers most: all published recipes leave it out.

    Args:
        precision: of every other layer.
        head: of the head; ``None``: the compute dtype.
        convolutions: of convolutions, where ``precision`` is none that they can have (a scale for each row).
    """
    kinds = ("Conv1d", "Conv2d", "Conv3d") if convolutions else ()
    return (
        Rule(head=True, precision=head, required=False),
        *(Rule(type=kind, precision=convolutions, required=False) for kind in kinds),
        Rule(precision=precision, required=False),
    )
