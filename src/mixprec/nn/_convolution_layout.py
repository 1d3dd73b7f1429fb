"""Convolution operands as matrices whose last or first axis is the reduction, and back.

A convolution sums over the channels of a group and over the kernel's positions. Blocks lie along the channels (as in a
channels-last layout) and end with the group; for the weight's gradient they lie along batch and positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..specs import Granularity, parse_cast
from ._operand_cast import OperandCast


@dataclass(frozen=True)
class Geometry:
    """Sizes of one convolution: channels in and out of each group, groups, positions of the kernel."""

    out_group: int
    in_group: int
    groups: int
    kernel: tuple[int, ...]

    @classmethod
    def of(cls, weight: Tensor, groups: int) -> Geometry:
        """The sizes of a weight [K, C / groups, ...]."""
        return cls(weight.shape[0] // groups, weight.shape[1], groups, tuple(weight.shape[2:]))

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return math.prod(self.kernel)

    @property
    def reduction(self) -> int:
        """Products that one output sums."""
        return self.in_group * self.taps


def channel_rows(x: Tensor) -> Tensor:
    """[N, C, ...] as [N * C, positions], as it lies."""
    return x.reshape(x.shape[0] * x.shape[1], -1)


def fits(cast: OperandCast, extent: int) -> bool:
    """Whether whole blocks of a cast lie within ``extent``, so that the tensor can be cast as it lies."""
    if not cast.scaled or cast.is_row or cast.tile[0] != 1 or cast.ignores_axis or cast.transform:
        return False
    return extent % cast.tile[1] == 0


def ending_with(cast: OperandCast, group: int) -> OperandCast:
    """A cast whose block ends with a group that is smaller: the same numbers, in blocks of the group's size."""
    outer, reduction = cast.tile
    if not cast.scaled or cast.transform or cast.is_row or cast.ignores_axis or outer != 1 or group >= reduction:
        return cast
    return replace(cast, text=_with_block(cast.text, group), tile=(1, group))


def _with_block(text: str, reduction: int) -> str:
    cast = parse_cast(text)
    return str(replace(cast, granularity=Granularity("block", 1, reduction)))


# Worked out while compiling, not traced: what torch.compiler.assume_constant_result sets.
_with_block._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def positions_by_channels(x: Tensor) -> Tensor:
    """[N, C, ...] as [N * positions, C]."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def from_positions(matrix: Tensor, like: Tensor) -> Tensor:
    """[N * positions, C'] as [N, C', ...], in a channels-last memory layout."""
    return matrix.reshape(like.shape[0], *like.shape[2:], -1).movedim(-1, 1)


def weight_for_fprop(weight: Tensor) -> Tensor:
    """[K, C / G, taps...] as [taps, K, C / G]: blocks lie along the input's channels."""
    return weight.flatten(2).permute(2, 0, 1)


def weight_from_fprop(batch: Tensor, geometry: Geometry) -> Tensor:
    """Back to [K, C' / G, taps...]; the channels may have been padded."""
    return batch.permute(1, 2, 0).reshape(batch.shape[1], batch.shape[2], *geometry.kernel)


def weight_for_dgrad(weight: Tensor, geometry: Geometry) -> Tensor:
    """[K, C / G, taps...] as [taps * G, C / G, K / G]: blocks lie along the output's channels."""
    grouped = weight.reshape(geometry.groups, geometry.out_group, geometry.in_group, geometry.taps)
    return grouped.permute(3, 0, 2, 1).reshape(-1, geometry.in_group, geometry.out_group)


def weight_from_dgrad(batch: Tensor, geometry: Geometry) -> Tensor:
    """Back to [K', C / G, taps...]; the output's channels may have been padded."""
    grouped = batch.reshape(geometry.taps, geometry.groups, geometry.in_group, -1).permute(1, 3, 2, 0)
    return grouped.reshape(-1, geometry.in_group, *geometry.kernel)


def rows_for_fprop(weight: Tensor) -> Tensor:
    """[K, all that one output sums]: one row for each output channel."""
    return weight.flatten(1)


def rows_for_dgrad(weight: Tensor, geometry: Geometry) -> Tensor:
    """[C, all that one input's gradient sums]: one row for each input channel."""
    grouped = weight.reshape(geometry.groups, geometry.out_group, geometry.in_group, geometry.taps)
    return grouped.transpose(1, 2).reshape(geometry.groups * geometry.in_group, -1)


def rows_from_dgrad(matrix: Tensor, geometry: Geometry) -> Tensor:
    """Back to [K, C / G, taps...]."""
    grouped = matrix.reshape(geometry.groups, geometry.in_group, geometry.out_group, geometry.taps)
    return grouped.transpose(1, 2).reshape(-1, geometry.in_group, *geometry.kernel)


def by_channel(scale: Tensor | None, like: Tensor) -> Tensor | None:
    """One scale for each channel, in the shape that multiplies [N, channels, ...]; a number stays one."""
    if scale is None or scale.dim() == 0:
        return scale
    return scale.reshape(1, -1, *(1,) * (like.dim() - 2))


def scaled_by(y: Tensor, *scales: Tensor | None) -> Tensor:
    """``y`` times what is not ``None``, in place."""
    for scale in scales:
        y = y if scale is None else y.mul_(scale)
    return y


def input_scales_of_weight(scale: Tensor | None, geometry: Geometry) -> Tensor | None:
    """One scale for each input channel, in the shape that multiplies [K, C / G, ...]."""
    if scale is None or scale.dim() == 0:
        return scale
    grouped = scale.reshape(geometry.groups, 1, geometry.in_group).expand(-1, geometry.out_group, -1)
    return grouped.reshape(-1, geometry.in_group, *(1,) * len(geometry.kernel))


def output_scales_of_weight(scale: Tensor | None, geometry: Geometry) -> Tensor | None:
    """One scale for each output channel, in the shape that multiplies [K, C / G, ...]."""
    if scale is None or scale.dim() == 0:
        return scale
    return scale.reshape(-1, 1, *(1,) * len(geometry.kernel))


def wide_dtype(is_integer: bool, reduction: int) -> torch.dtype:
    """The dtype whose sums are exact enough: fp64 for integers over a long reduction, which int32 sums exactly."""
    return torch.float64 if is_integer and reduction > 1024 else torch.float32
