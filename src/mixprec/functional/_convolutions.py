"""Convolutions."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from ..nn import ConvolutionGeometry, ConvolutionSize
from ._precision import Options, products


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: ConvolutionSize = 1,
    padding: ConvolutionSize | str = 0,
    dilation: ConvolutionSize = 1,
    groups: int = 1,
    **options: Unpack[Options],
) -> Tensor:
    """``torch.nn.functional.conv1d`` in casts.

    Blocks of input and weight lie along the channels of a group, tap by tap; those of the weight's gradient along
    batch and positions. They end with the group.

    Args:
        input: fp32, bf16 or fp16 ``[N, C, L]`` or ``[C, L]``.
        weight: ``[K, C / groups, taps]``.
        bias: ``[K]``, added to the fp32 sums.
        stride: as torch's.
        padding: as torch's, ``"same"`` and ``"valid"`` included.
        dilation: as torch's.
        groups: as torch's.
        **options: ``precision``: the casts of the six operands, or one cast for all. ``compute_dtype``: of what has no
            cast, and of the result; by default that of ``input``. ``seed``: of stochastic roundings and fresh signs.

    Returns:
        As torch's, in the compute dtype.

    Raises:
        TypeError: operands that are integers, complex or fp64.
        ValueError: as `linear`; casts that a convolution cannot multiply exactly: fp32 block scales, fp32 row scales of
            input or gradient, a narrow accumulator.

    Example:
        >>> import torch
        >>> conv1d(torch.tensor([[5.0, 1.0]]), torch.ones(1, 1, 2), precision="mxfp4").item()    # each channel a block
        5.0
    """
    geometry = ConvolutionGeometry(stride, padding, dilation, groups)
    return _convolution(1, input, weight, bias, geometry, options)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: ConvolutionSize = 1,
    padding: ConvolutionSize | str = 0,
    dilation: ConvolutionSize = 1,
    groups: int = 1,
    **options: Unpack[Options],
) -> Tensor:
    """``torch.nn.functional.conv2d`` in casts; see `conv1d`.

    Raises:
        TypeError, ValueError: as `conv1d`.

    Example:
        >>> import torch
        >>> conv2d(torch.ones(1, 2, 2), torch.ones(1, 1, 2, 2), precision="mxfp4").item()
        4.0
    """
    geometry = ConvolutionGeometry(stride, padding, dilation, groups)
    return _convolution(2, input, weight, bias, geometry, options)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: ConvolutionSize = 1,
    padding: ConvolutionSize | str = 0,
    dilation: ConvolutionSize = 1,
    groups: int = 1,
    **options: Unpack[Options],
) -> Tensor:
    """``torch.nn.functional.conv3d`` in casts; see `conv1d`.

    Raises:
        TypeError: as `conv1d`.
        ValueError: as `conv1d`; a transform of the weight gradient's operands.

    Example:
        >>> import torch
        >>> conv3d(torch.ones(1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2), precision="mxfp8").item()
        8.0
    """
    geometry = ConvolutionGeometry(stride, padding, dilation, groups)
    return _convolution(3, input, weight, bias, geometry, options)


def _convolution(
    dims: int, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: ConvolutionGeometry, options: Options
) -> Tensor:
    name = f"functional.conv{dims}d"
    if weight.dim() != dims + 2 or x.dim() not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: got an input of {x.dim()} dimensions and a weight of {weight.dim()}, expected {dims + 1} or "
            f"{dims + 2}, and {dims + 2}"
        )
    return products(name, x, **options).convolution(x, weight, bias, geometry)
