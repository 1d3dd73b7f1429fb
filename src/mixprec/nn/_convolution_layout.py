"""Convolution operands as matrices whose reduction is an axis, and back.

A convolution with groups is a product for each group: nothing that shares a scale reaches from one group into the
next. It sums over the channels of a group and over the kernel's taps; blocks lie along the channels, tap by tap (as in
a channels-last layout). The weight's gradient sums over batch and positions, and blocks lie along these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Geometry:
    """Sizes of one convolution: channels out and in of each group, groups, positions of the kernel."""

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


# --- activations and gradients ----------------------------------------------------------------------


def positions_by_channels(x: Tensor) -> Tensor:
    """[N, C, ...] as [N * positions, C]."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def from_positions(matrix: Tensor, shape: Sequence[int]) -> Tensor:
    """[N * positions, C'] as [N, C', ...], in a channels-last memory layout."""
    return matrix.reshape(shape[0], *shape[2:], -1).movedim(-1, 1)


def groups_apart(matrix: Tensor, groups: int, size: int) -> Tensor:
    """[M, C] with the channels of each group filled with zeros to whole blocks of ``size``."""
    channels = matrix.shape[1] // groups
    missing = -channels % size
    return F.pad(matrix.unflatten(1, (groups, channels)), (0, missing)).flatten(1) if missing else matrix


def groups_together(matrix: Tensor, groups: int, channels: int) -> Tensor:
    """Back to [M, C], ``channels`` in all."""
    group = channels // groups
    if matrix.shape[1] == channels:
        return matrix
    return matrix.unflatten(1, (groups, -1))[:, :, :group].flatten(1)


def group_rows(x: Tensor, groups: int) -> Tensor:
    """[N, C, ...] as [groups, N * positions, C / groups]."""
    return positions_by_channels(x).unflatten(1, (groups, -1)).transpose(0, 1)


def from_group_rows(batch: Tensor, shape: Sequence[int]) -> Tensor:
    """Back to [N, C', ...]; the channels of each group may have been padded."""
    return from_positions(batch.transpose(0, 1).flatten(1), shape)


# --- weights ----------------------------------------------------------------------------------------


def weight_for_fprop(weight: Tensor, geometry: Geometry) -> Tensor:
    """[K, C / G, taps...] as [G * taps, K / G, C / G]: blocks lie along the input's channels."""
    grouped = weight.reshape(geometry.groups, geometry.out_group, geometry.in_group, geometry.taps)
    return grouped.permute(0, 3, 1, 2).reshape(-1, geometry.out_group, geometry.in_group)


def weight_from_fprop(batch: Tensor, geometry: Geometry) -> Tensor:
    """Back to [K, C' / G, taps...]; the input's channels may have been padded."""
    grouped = batch.reshape(geometry.groups, geometry.taps, geometry.out_group, -1).permute(0, 2, 3, 1)
    return grouped.reshape(geometry.groups * geometry.out_group, -1, *geometry.kernel)


def weight_for_dgrad(weight: Tensor, geometry: Geometry) -> Tensor:
    """[K, C / G, taps...] as [G * taps, C / G, K / G]: blocks lie along the output's channels."""
    return weight_for_fprop(weight, geometry).transpose(1, 2)


def weight_from_dgrad(batch: Tensor, geometry: Geometry) -> Tensor:
    """Back to [K', C / G, taps...]; the output's channels may have been padded."""
    grouped = batch.reshape(geometry.groups, geometry.taps, geometry.in_group, -1).permute(0, 3, 2, 1)
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


# --- scales of outer axes ---------------------------------------------------------------------------


def by_channel(scale: Tensor | None, like: Tensor) -> Tensor | None:
    """One scale for each channel, in the shape that multiplies [N, channels, ...]; a number stays one."""
    if scale is None or scale.dim() == 0:
        return scale
    return scale.reshape(1, -1, *(1,) * (like.dim() - 2))


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
