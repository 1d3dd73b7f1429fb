"""What a product's sums are kept in, where that is narrower than fp32."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ._kinds import check_text

SumRounding = Literal["nearest-even", "toward-zero"]
_FORM = re.compile(r"m([0-9]+) (rne|rtz)(?: promote([0-9]+))?")


@dataclass(frozen=True, kw_only=True)
class Accumulator:
    """A narrow accumulator, such as the tensor cores of one generation of GPUs have for FP8.

    Each product is added in the order of the reduction, and the sum is rounded to ``mantissa_bits``. After every
    ``promote_every`` products it moves to an fp32 sum and starts again. An emulation of what narrow sums do to
    training; a real unit adds several products at once, in an order of its own. The product runs outside of the
    machine's GEMM, which makes it slow.

    Attributes:
        mantissa_bits: stored mantissa bits, 1 to 22.
        rounding: after each addition: ``"toward-zero"`` (truncation) or ``"nearest-even"``.
        promote_every: products between two promotions to fp32; 0: never.

    Raises:
        ValueError: a number out of its range, or another rounding.

    Source: DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.3.2: about 14 bits, promotion every
    128 products.

    Example:
        >>> str(Accumulator(mantissa_bits=14, promote_every=128))
        'm14 rtz promote128'
    """

    mantissa_bits: int
    rounding: SumRounding = "toward-zero"
    promote_every: int = 0

    def __post_init__(self) -> None:
        is_whole = type(self.mantissa_bits) is type(self.promote_every) is int
        if not is_whole or not 1 <= self.mantissa_bits <= 22 or self.promote_every < 0:
            raise ValueError(
                f"accumulator has mantissa_bits={self.mantissa_bits}, promote_every={self.promote_every}: expected 1 "
                "to 22 bits (fp32 sums: no accumulator) and 0 or more products"
            )
        if self.rounding not in ("nearest-even", "toward-zero"):
            raise ValueError(f"accumulator has rounding '{self.rounding}', expected nearest-even or toward-zero")

    def __str__(self) -> str:
        words = [f"m{self.mantissa_bits}", "rtz" if self.rounding == "toward-zero" else "rne"]
        return " ".join([*words, f"promote{self.promote_every}"] if self.promote_every else words)


def parse_accumulator(text: str) -> Accumulator | None:
    """Read ``str(accumulator)``; ``"fp32"`` is ``None``, the usual one.

    Raises:
        ValueError: what cannot be read.
        TypeError: no text.

    Example:
        >>> parse_accumulator("m14 rtz promote128"), parse_accumulator("fp32")
        (Accumulator(mantissa_bits=14, rounding='toward-zero', promote_every=128), None)
    """
    check_text("accumulator", text, "m14 rtz promote128")
    if text == "fp32":
        return None
    found = _FORM.fullmatch(" ".join(text.split()))
    if not found:
        raise ValueError(f"accumulator '{text}' cannot be read: expected 'fp32' or a form like 'm14 rtz promote128'")
    rounding: SumRounding = "toward-zero" if found[2] == "rtz" else "nearest-even"
    return Accumulator(mantissa_bits=int(found[1]), rounding=rounding, promote_every=int(found[3] or 0))
