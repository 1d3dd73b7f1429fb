"""A cast: format, granularity, scaling rule, rounding, overflow and transform, and its one-line form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal["exact", "floor", "ceil", "rceil", "even"]
Rounding = Literal["nearest-even", "stochastic", "toward-zero"]
Overflow = Literal["saturate", "propagate"]
GranularityKind = Literal["none", "tensor", "row", "block"]


@dataclass(frozen=True)
class Granularity:
    """What shares a scale.

    ``none``: unscaled. ``tensor``: one scale. ``row``: one scale per outer index (constant along the
    reduction). ``block``: one scale per ``outer`` x ``reduction`` tile of that GEMM's operand.
    """

    kind: GranularityKind
    outer: int = 0
    reduction: int = 0


@dataclass(frozen=True, kw_only=True)
class Cast:
    """How one tensor is brought to a format.

    Attributes:
        element: name of the element format.
        granularity: what shares a scale.
        scale: format of the shared scale: ``"fp32"`` (tensor, row), ``"e8m0"`` (MX blocks), ``"e4m3"``
            (NVFP4 blocks); ``None`` when unscaled.
        tensor_scale: ``"fp32"`` for a two-level scale, else ``None``.
        rule: how the scale comes from the amax.
        rounding: of the elements.
        overflow: what a value beyond the largest becomes.
        transform: 0, or the size of the Hadamard transform along the reduction (16, 32, 64, 128).
        random_signs: whether the transform flips signs by the fixed pseudo-random vector first.
    """

    element: str
    granularity: Granularity
    scale: str | None = None
    tensor_scale: str | None = None
    rule: Rule = "exact"
    rounding: Rounding = "nearest-even"
    overflow: Overflow = "saturate"
    transform: int = 0
    random_signs: bool = False
