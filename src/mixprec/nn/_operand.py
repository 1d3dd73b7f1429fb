"""A GEMM operand: exact values in a carrier that torch multiplies, and the scales that are applied afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FORMAT_OF_DTYPE = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Operand:
    """A GEMM operand: ``value = carrier * outer``; ``outer`` is ``None`` where it is one.

    ``tiles`` are scales that vary along the reduction, one for each ``tile`` (rows, columns) of the carrier.
    ``is_integer``: the carrier holds integers times one power of two.
    """

    carrier: Tensor
    outer: Tensor | None
    format: str
    tiles: Tensor | None = None
    tile: tuple[int, int] = (1, 1)
    is_integer: bool = False
