"""Interleaved matrices as one matrix: what a backend does that has no kernel for them."""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from ._contract import Draw
from ._out import check_out
from ._parameters import CastParameters


class Scaled(Protocol):
    """``Backend.scaled``."""

    def __call__(self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw, /) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale."""
        ...


def scaled_stacked(
    scaled: Scaled, x_RCT: Tensor, parameters: CastParameters, axis: int, out: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``Backend.scaled_interleaved`` by ``scaled`` of the matrices stacked to one.

    Zeros fill each to whole tiles, so that none spans two matrices; they change no largest magnitude.
    """
    rows, columns, count = x_RCT.shape
    missing = -rows % parameters.matrix_tile(axis)[0]
    stacked = F.pad(x_RCT.permute(2, 0, 1), (0, 0, 0, missing)).reshape(count * (rows + missing), columns)
    carrier, outer = scaled(stacked, parameters, axis, Draw())
    result = carrier.reshape(count, rows + missing, columns)[:, :rows].permute(1, 2, 0)
    return result.contiguous() if out is None else check_out(x_RCT, out, x_RCT.shape).copy_(result), outer
