"""Layers whose sizes the blocks of their casts do not divide."""

from __future__ import annotations

from torch import Tensor

from ._convert import Conversion
from ._site import SITE, Site

_REDUCTIONS = {"fprop_input": 1, "fprop_weight": 1, "dgrad_grad_output": 0, "dgrad_weight": 0}


def uneven_blocks(conversion: Conversion) -> dict[str, tuple[tuple[int, int], int]]:
    """The layers with a matrix of weights whose last block along a reduction is not full.

    Returns:
        By path: the sizes of the weight (output, input), and of the block. (The reduction of wgrad is the batch.)

    Example:
        >>> from torch import nn
        >>> from mixprec.nn import convert
        >>> uneven_blocks(convert(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 20)), "mxfp8"))
        {'1': ((20, 32), 32)}
    """
    found: dict[str, tuple[tuple[int, int], int]] = {}
    for path, module in conversion.model.named_modules():
        site: Site | None = module.__dict__.get(SITE)
        weight = getattr(module, "weight", None)
        if site is None or not isinstance(weight, Tensor) or weight.dim() != 2:
            continue
        sizes = int(weight.shape[0]), int(weight.shape[1])
        for operand, reduction in _REDUCTIONS.items():
            cast = getattr(site.casts, operand)
            if cast is not None and sizes[reduction] % cast.tile[1]:
                found[path] = sizes, int(cast.tile[1])
    return found
