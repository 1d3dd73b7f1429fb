"""A number and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A positive number that a source vouches for.

    Args:
        value: in the unit of the field that holds it.
        source: title of the document, or how it was measured or derived; never empty.

    Raises:
        ValueError: the number is not positive and finite, or there is no source.

    Example:
        >>> Figure(19.5e12, "NVIDIA A100 datasheet").value
        19500000000000.0
    """

    value: float
    source: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"a figure is {self.value!r}, expected a positive finite number")
        if not self.source.strip():
            raise ValueError(f"the figure {self.value:g} has no source: say the document, or how it was measured")
