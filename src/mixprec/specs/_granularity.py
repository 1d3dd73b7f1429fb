"""What shares a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..formats import unknown_name
from ._kinds import WHOLE, check_kinds

GranularityKind = Literal["none", "tensor", "row", "block"]
MAX_BLOCK = 4096


@dataclass(frozen=True)
class Granularity:
    """What shares a scale.

    ``none``: unscaled. ``tensor``: one scale. ``row``: one scale per outer index (constant along the
    reduction). ``block``: one scale per ``outer`` x ``reduction`` tile of that GEMM's operand.

    Raises:
        ValueError: an unknown kind, a block without sizes from 1 to 4096, or sizes without a block.
        TypeError: sizes that are no integers.

    Example:
        >>> str(Granularity("block", 1, 32)), str(Granularity("row"))
        ('1x32', 'row')
    """

    kind: GranularityKind
    outer: int = 0
    reduction: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(GranularityKind):
            raise unknown_name("granularity", self.kind, get_args(GranularityKind))
        check_kinds("granularity", self, {"outer": WHOLE, "reduction": WHOLE})
        sizes = (self.outer, self.reduction)
        if self.kind == "block":
            if not all(1 <= size <= MAX_BLOCK for size in sizes):
                raise ValueError(f"block {self} is refused: each side must be 1 to {MAX_BLOCK}")
        elif sizes != (0, 0):
            raise ValueError(f"granularity '{self.kind}' got sizes {sizes}: only 'block' has sizes")

    def __str__(self) -> str:
        return f"{self.outer}x{self.reduction}" if self.kind == "block" else self.kind
