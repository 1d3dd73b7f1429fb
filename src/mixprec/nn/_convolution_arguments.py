"""The geometry of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: A size for each dimension, or one for all.
ConvolutionSize = int | Sequence[int]


class ConvolutionGeometry(NamedTuple):
    """The arguments of ``F.conv1d``, ``conv2d`` and ``conv3d`` behind the bias, as torch takes them."""

    stride: ConvolutionSize = 1
    padding: ConvolutionSize | str = 0
    dilation: ConvolutionSize = 1
    groups: int = 1


@dataclass(frozen=True, kw_only=True)
class ConvolutionArguments:
    """Geometry as ``aten.convolution`` takes it."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    transposed: bool
    output_padding: list[int]
    groups: int

    def positional(self) -> tuple[list[int], list[int], list[int], bool, list[int], int]:
        """The arguments in the order of ``aten.convolution``."""
        return self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups

    def as_2d(self) -> ConvolutionArguments:
        """A 1-D convolution's geometry as that of a 2-D one of height 1."""
        return ConvolutionArguments(
            stride=[1, *self.stride],
            padding=[0, *self.padding],
            dilation=[1, *self.dilation],
            transposed=self.transposed,
            output_padding=[0, *self.output_padding],
            groups=self.groups,
        )
