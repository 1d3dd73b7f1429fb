"""A carrier and its outer scale as values."""

from __future__ import annotations

from torch import Tensor

from mixprec.specs import Cast


def times_outer(carrier: Tensor, outer: Tensor, cast: Cast) -> Tensor:
    """The carrier times its outer scale, in place.

    Args:
        carrier: fp32 ``[R, C]``, whose reduction runs along the rows.
        outer: fp32, 0-d, ``[R, 1]``, or one number per tile.
        cast: what both come from.

    Example:
        >>> import torch
        >>> from mixprec.specs import parse_cast
        >>> outer = torch.tensor([[2.0, 3.0]])
        >>> times_outer(torch.ones(1, 3), outer, parse_cast("e4m3[1x2:fp32]")).tolist()
        [[2.0, 2.0, 3.0]]
    """
    if cast.granularity.kind != "block":
        return carrier.mul_(outer)
    if cast.scale == "e8m0" and cast.ratio == 1:  # of such blocks it is one
        return carrier
    if outer.ndim:
        rows, columns = carrier.shape
        tile = cast.granularity
        outer = outer.repeat_interleave(tile.outer, 0).repeat_interleave(tile.reduction, 1)[:rows, :columns]
    return carrier.mul_(outer)
