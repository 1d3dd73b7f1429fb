"""The casts of a layer precision, with what a GEMM has to know of each worked out beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..formats import get_format
from ..specs import OPERANDS, Accumulator, Cast, Delayed, LayerPrecision, Signs

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class OperandCast:
    """One operand's cast.

    Attributes:
        text: the cast's one-line form.
        element: the element alone, unscaled: what brings a carrier of grid values to codes.
        has_nan: whether the element has a code for NaN.
        bits: of an element's code.
        dtype: torch's dtype that holds the values exactly in 16 bits, for an unscaled cast of such a format.
        max_value: largest element.
        transform: size of its Hadamard transform, 0 for none.
        signs: what that flips first.
        clips: whether it clips on purpose, so that what was clipped passes no gradient on.
        scaled: whether values share a scale.
        has_outer: whether a scale is left to apply to the output.
        tile: sizes of a block, (outer, reduction); (1, 1) without blocks.
        is_row: whether each row has a scale.
        is_power: whether scales are powers of two.
        has_tile_scales: whether that scale varies along the reduction (fp32 block scales).
        ignores_axis: whether both orientations of a matrix get the same values.
        is_integer: whether elements are integers, whose sums are exact.
        random: whether the values depend on random bits.
        delayed: which earlier amaxes the scale comes from.
    """

    text: str
    element: str
    has_nan: bool
    bits: int
    dtype: torch.dtype | None
    max_value: float
    transform: int
    signs: Signs
    clips: bool
    scaled: bool
    has_outer: bool
    tile: tuple[int, int]
    is_row: bool
    is_power: bool
    has_tile_scales: bool
    ignores_axis: bool
    is_integer: bool
    random: bool
    delayed: Delayed | None

    @property
    def is_fusable(self) -> bool:
        """Whether it can share the read of a matrix with the cast along the other axis."""
        return self.scaled and self.delayed is None

    @property
    def is_kept(self) -> bool:
        """Whether codes of a weight stay good until its next update."""
        return self.is_fusable and not self.random

    @classmethod
    def of(cls, cast: Cast) -> OperandCast:
        """What the GEMM has to know of ``cast``."""
        kind = cast.granularity.kind
        element = get_format(cast.element)
        power_blocks = kind == "block" and cast.scale == "e8m0" and cast.ratio == 1
        one_level = kind == "block" and cast.tensor_scale is None and cast.scale not in ("fp32", "e8m0")
        return cls(
            text=str(cast),
            element=f"{cast.element} {cast.overflow}",
            has_nan=element.nan != "none",
            bits=element.bits,
            dtype=_DTYPES.get(cast.element) if kind == "none" else None,
            max_value=element.max_value,
            transform=cast.transform,
            signs=cast.signs,
            clips=cast.rule == "quest",
            scaled=kind != "none",
            has_outer=kind != "none" and not power_blocks and not one_level,
            tile=(max(cast.granularity.outer, 1), max(cast.granularity.reduction, 1)),
            is_row=kind == "row",
            is_power=cast.scale == "e8m0" and cast.ratio == 1,
            has_tile_scales=kind == "block" and cast.scale == "fp32",
            ignores_axis=kind in ("none", "tensor") and not cast.transform,
            is_integer=element.kind == "integer" or cast.element == "int4",
            random=cast.is_random,
            delayed=cast.delayed,
        )


@dataclass(frozen=True, kw_only=True)
class OperandCasts:
    """The six casts of a layer precision; ``None`` keeps an operand in the compute dtype.

    Attributes:
        is_shown: whether an operand is cast to fp32, which changes nothing: the site counts as one that has casts, so
            that its products are shown to whoever watches.
        is_plain: whether every operand stays in the compute dtype, and sums in fp32.
        is_only_shown: whether nothing would be left but ``is_plain`` without ``is_shown``.
        random: whether any operand needs random bits.
    """

    fprop_input: OperandCast | None = None
    fprop_weight: OperandCast | None = None
    dgrad_grad_output: OperandCast | None = None
    dgrad_weight: OperandCast | None = None
    wgrad_grad_output: OperandCast | None = None
    wgrad_input: OperandCast | None = None
    accumulator: Accumulator | None = None
    is_shown: bool = False
    is_plain: bool = field(init=False)
    is_only_shown: bool = field(init=False)
    random: bool = field(init=False)

    def __post_init__(self) -> None:
        # Worked out once: a compiler's trace reads them as constants.
        present = self.present
        changes_nothing = len(present) == 0 and self.accumulator is None
        object.__setattr__(self, "is_plain", changes_nothing and not self.is_shown)
        object.__setattr__(self, "is_only_shown", changes_nothing and self.is_shown)
        object.__setattr__(self, "random", any(cast.random for cast in present))

    @classmethod
    def of(cls, precision: LayerPrecision | None) -> OperandCasts:
        """The casts of ``precision``; ``None`` keeps every operand in the compute dtype."""
        if precision is None:
            return cls()
        casts = {name: cast for name in OPERANDS if (cast := precision.operand(name)) is not None}
        changing = {name: OperandCast.of(cast) for name, cast in casts.items() if not _is_exact(cast)}
        return cls(**changing, accumulator=precision.accumulator, is_shown=len(changing) < len(casts))

    @property
    def present(self) -> tuple[OperandCast, ...]:
        """The casts that are not ``None``."""
        casts: list[OperandCast | None] = [getattr(self, name) for name in OPERANDS]
        return tuple(cast for cast in casts if cast is not None)


def _is_exact(cast: Cast) -> bool:
    """Whether every operand, being of 32 bits at most, is a value of the cast."""
    return cast.element == "fp32" and cast.granularity.kind == "none"
