"""Which casts of a convolution's operands need no other layout than the tensor's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from torch import Tensor

from ..specs import Granularity, parse_cast
from ._convolution_layout import Geometry
from ._operand import Operand
from ._operand_cast import OperandCast


@dataclass(frozen=True)
class Lying:
    """A cast of [N, C, ...] as it lies.

    Attributes:
        cast: of the same numbers, perhaps in blocks of another shape.
        rows: of the matrix that the tensor is to it.
        axis: that its reduction runs along there.
        format: the cast that was asked for.
    """

    cast: OperandCast
    rows: int
    axis: Literal[0, 1]
    format: str

    def matrix(self, x: Tensor) -> Tensor:
        """The tensor as that matrix."""
        return x.reshape(self.rows, prod(x.shape) // max(self.rows, 1))

    def told(self, made: Operand) -> Operand:
        """The operand under the name of the cast that was asked for."""
        return replace(made, format=self.format)


def lying_along_channels(cast: OperandCast, shape: Sequence[int], group: int) -> Lying | None:
    """How blocks along the channels of a group lie in [N, C, ...]: ``positions`` apart; ``None``: they do not fit.

    ``group`` is counted in the weight, whose sizes are numbers where a compiler knows those of ``shape`` as symbols.
    """
    ended = ending_with(cast, group)
    if not _is_one_dimensional(ended) or group % ended.tile[1] != 0:
        return None
    return Lying(ended, shape[0] * shape[1], 0, cast.text)


def lying_along_positions(cast: OperandCast, shape: Sequence[int]) -> Lying | None:
    """How blocks along batch and positions lie in [N, C, ...], whole in one image or over whole images."""
    if not _is_one_dimensional(cast):
        return None
    positions, block = prod(shape[2:]), cast.tile[1]
    if positions % block == 0:
        return Lying(cast, shape[0] * shape[1], 1, cast.text)
    for images in range(2, block + 1):
        if block % images == 0 and positions == block // images:  # a number, also where a compiler knows only a symbol
            # All positions of a channel in so many images: a tile of [N, C * positions].
            return Lying(_with_block(cast, block // images, images), shape[0], 0, cast.text)
    return None


def interleaved(cast: OperandCast, geometry: Geometry, axis: Literal[0, 1]) -> OperandCast | None:
    """The cast that a weight's taps take side by side in [K, C / groups, taps], reduced along ``axis``."""
    if not _in_blocks(cast) or cast.random or cast.clips or cast.has_tile_scales:
        return None
    ended = ending_with(cast, geometry.out_group) if axis == 0 else cast
    height = ended.tile[0] if axis == 1 else ended.tile[1]
    return ended if geometry.groups == 1 or geometry.out_group % height == 0 else None


def ending_with(cast: OperandCast, group: int) -> OperandCast:
    """A cast whose block ends with a group that is smaller: the same numbers, in blocks of the group's size."""
    if not _is_one_dimensional(cast) or group >= cast.tile[1]:
        return cast
    return _with_block(cast, 1, group)


def _in_blocks(cast: OperandCast) -> bool:
    return cast.scaled and not cast.is_row and not cast.ignores_axis and not cast.transform


def _is_one_dimensional(cast: OperandCast) -> bool:
    return _in_blocks(cast) and cast.tile[0] == 1


def _with_block(cast: OperandCast, outer: int, reduction: int) -> OperandCast:
    return replace(cast, text=_text_with_block(cast.text, outer, reduction), tile=(outer, reduction))


def _text_with_block(text: str, outer: int, reduction: int) -> str:
    return str(replace(parse_cast(text), granularity=Granularity("block", outer, reduction)))


# Worked out while compiling, not traced: what torch.compiler.assume_constant_result sets.
_text_with_block._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
