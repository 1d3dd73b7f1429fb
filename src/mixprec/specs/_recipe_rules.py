"""Rules that named recipes share."""

from __future__ import annotations

from ._layer import LayerPrecision
from ._rule import Rule


def all_but_the_head(precision: LayerPrecision, *, head: LayerPrecision | None = None) -> tuple[Rule, ...]:
    """Give every layer with a weight the precision, but the head, which suffers most: all published recipes leave it out."""
    return (Rule(head=True, precision=head, required=False), Rule(precision=precision, required=False))
