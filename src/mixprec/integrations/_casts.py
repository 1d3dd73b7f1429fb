"""What both engines ask of casts to 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..specs import OPERANDS, Cast

#: The operands of each product.
GEMMS = (OPERANDS[0:2], OPERANDS[2:4], OPERANDS[4:6])
_POWERS_OF_TWO: Mapping[tuple[str, str], bool] = MappingProxyType({("fp32", "exact"): False, ("e8m0", "rceil"): True})


def power_of_two(cast: Cast) -> bool | None:
    """Whether the engines round a cast's scale up to a power of two; ``None`` where they have no such scale.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> [power_of_two(parse_cast(text)) for text in ("e4m3[tensor]", "mxfp8 rceil", "mxfp8 floor")]
        [False, True, None]
    """
    return _POWERS_OF_TWO.get((cast.scale or "", cast.rule))
