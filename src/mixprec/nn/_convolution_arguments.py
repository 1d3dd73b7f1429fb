"""The geometry of a convolution."""

from __future__ import annotations

from dataclasses import dataclass


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
