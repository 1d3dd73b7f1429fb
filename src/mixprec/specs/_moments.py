"""How an optimizer's moments are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..formats import unknown_name
from ._kinds import FLAG, WHOLE, check_kinds

MomentKind = Literal["fp32", "bf16", "e4m3", "dynamic"]

_BLOCKS = (128, 256)


@dataclass(frozen=True, kw_only=True)
class Moments:
    """How the moments (running means) of an optimizer of ``mixprec.optim`` are kept between steps.

    Attributes:
        kind: ``"fp32"``; ``"bf16"``; ``"e4m3"`` or ``"dynamic"``: 8-bit codes of E4M3 or of the dynamic map under an
            fp32 scale per block. First moments are rounded to nearest, second ones by chance: they would stall.
        block: consecutive elements that share a scale, 128 or 256; 8 bits only.
        expand: ``"e4m3"`` only: whether each block's magnitudes are raised to a power that fits their range to the
            format's.
        small: tensors of fewer elements keep fp32 moments, whatever ``kind`` is.

    Raises:
        ValueError: an unknown kind, another block size, or a negative ``small``.
        TypeError: a number or a flag that is none.

    Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861 (blocks, dynamic map, small
    tensors); Xi et al., COAT, arXiv:2410.19313 (E4M3, range expansion).

    Example:
        >>> Moments(kind="e4m3").block
        256
    """

    kind: MomentKind = "fp32"
    block: int = 256
    expand: bool = True
    small: int = 4096

    def __post_init__(self) -> None:
        if self.kind not in get_args(MomentKind):
            raise unknown_name("way to keep moments", self.kind, get_args(MomentKind))
        check_kinds("moments", self, {"block": WHOLE, "expand": FLAG, "small": WHOLE})
        if self.block not in _BLOCKS:
            raise ValueError(f"moments: block is {self.block}, expected 128 or 256")
        if self.small < 0:
            raise ValueError(f"moments: small is {self.small}, expected 0 or more")


def parse_moments(value: Moments | str) -> Moments:
    """Read moments from their short form, the kind's name.

    Raises:
        ValueError: an unknown kind.

    Example:
        >>> parse_moments("bf16") == Moments(kind="bf16")
        True
    """
    return value if isinstance(value, Moments) else Moments(kind=value)  # pyright: ignore[reportArgumentType]  # checked
