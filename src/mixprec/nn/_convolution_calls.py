"""From the spellings of ``F.conv*`` and ``F.conv_transpose*`` to one convolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._convolution import convolution
from ._convolution_arguments import ConvolutionArguments, ConvolutionSize
from ._product_sites import is_castable
from ._site import ConversionState, Site
from ._telling import left_to_torch


def _tuple(value: ConvolutionSize, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, int) else list(value) * (dims if len(value) == 1 else 1)


def convolve(
    site: Site,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: ConvolutionSize = 1,
    padding: ConvolutionSize | str = 0,
    dilation: ConvolutionSize = 1,
    groups: int = 1,
) -> Tensor:
    """``F.conv1d``, ``conv2d`` or ``conv3d`` under a site's casts."""
    dims = weight.dim() - 2
    dilations = _tuple(dilation, dims)
    pads = [0] * dims
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
        # torch puts the odd element at the end; F.pad takes the last dimension first.
        sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        input = F.pad(input, sides)
    elif not isinstance(padding, str):
        pads = _tuple(padding, dims)
    arguments = ConvolutionArguments(
        stride=_tuple(stride, dims), padding=pads, dilation=dilations, transposed=False, output_padding=[0] * dims,
        groups=groups,
    )  # fmt: skip
    return convolution(input, weight, bias, arguments, site)


_TRANSPOSED = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}


def _transposed(
    site: Site,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *geometry: ConvolutionSize,
    **named: ConvolutionSize,
) -> Tensor:
    given = {**_TRANSPOSED, **dict(zip(_TRANSPOSED, geometry, strict=False)), **named}
    groups = given.pop("groups")
    sizes = {name: _tuple(value, weight.dim() - 2) for name, value in given.items()}
    arguments = ConvolutionArguments(transposed=True, groups=_tuple(groups, 1)[0], **sizes)
    return convolution(input, weight, bias, arguments, site)


def _forward_handler(
    state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor:
    weight: Tensor = args[1] if len(args) > 1 else kwargs["weight"]
    taken = weight.dim() > 2 and is_castable(*_tensors(args, kwargs))
    site = state.casts_of(f"Conv{weight.dim() - 2}d", (weight.shape[0], weight.shape[1])) if taken else None
    if site is not None or (state.is_16bit and taken):
        return convolve(site or state.functional, *args, **kwargs)
    return left_to_torch(state, func, args, kwargs)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]


def _transposed_handler(
    state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor:
    if state.is_16bit and is_castable(*_tensors(args, kwargs)):
        return _transposed(state.functional, *args, **kwargs)
    return left_to_torch(state, func, args, kwargs)


#: Handlers by function; ``F.conv2d`` and ``torch.conv2d`` are one object.
CONVOLUTIONS: Mapping[Callable[..., Any], Callable[..., Tensor]] = {
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d, torch.conv1d, torch.conv2d, torch.conv3d), _forward_handler),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), _transposed_handler),
}
