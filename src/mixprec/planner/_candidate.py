"""What a layer may be given: a named precision."""

from __future__ import annotations

from dataclasses import dataclass

from ..specs import LayerPrecision

#: The candidate that leaves a layer in the compute dtype; every group has it.
KEEP = "keep"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A precision that layers may be given.

    Attributes:
        name: a recipe's, or ``"keep"``.
        precision: the casts of a layer; ``None`` leaves it in the compute dtype.

    Example:
        >>> Candidate(name="mxfp8", precision=LayerPrecision.uniform("mxfp8")).precision.is_uniform
        True
    """

    name: str
    precision: LayerPrecision | None = None
