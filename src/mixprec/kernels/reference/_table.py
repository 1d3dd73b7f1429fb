"""Rounding to the numbers of a table, and their codes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._parameters import ElementParameters


def round_to_table(x: Tensor, table: tuple[float, ...], rounding: str, words: Tensor | None) -> Tensor:
    """Every element of an fp32 tensor rounded to one of a table's numbers.

    Args:
        x: fp32, any shape.
        table: in ascending order, zero among them.
        rounding: ``"nearest-even"`` (ties to the even place), ``"toward-zero"`` or ``"stochastic"``.
        words: 32-bit random words in int64, shape of x; needed for stochastic rounding only.

    Returns:
        fp32, shape of x. What lies beyond an end goes to that end, an infinity too; NaN stays NaN.

    Example:
        >>> round_to_table(torch.tensor([0.2, 0.7, -9.0]), (-1.0, 0.0, 0.5, 1.0), "nearest-even", None).tolist()
        [0.0, 0.5, -1.0]
    """
    numbers = torch.tensor(table, dtype=torch.float64, device=x.device)
    exact = x.double().contiguous()
    # The first number that is not below; at the end, and for NaN, the last.
    above = torch.bucketize(exact, numbers).clamp(max=len(table) - 1)
    below = torch.where(numbers[above] == exact, above, (above - 1).clamp(min=0))
    inner, outer = torch.where(exact > 0, below, above), torch.where(exact > 0, above, below)
    magnitude, low, high = exact.abs(), numbers[inner].abs(), numbers[outer].abs()
    if rounding == "toward-zero":
        outward = torch.zeros_like(exact, dtype=torch.bool)
    elif words is not None and rounding == "stochastic":
        gap = torch.where(high > low, high - low, 1.0)
        outward = words < ((magnitude - low) / gap * 2.0**32).long()
    else:
        doubled, middle = 2.0 * magnitude, low + high
        outward = (doubled > middle) | ((doubled == middle) & (outer % 2 == 0))
    rounded = numbers[torch.where(outward, outer, inner)]
    rounded = torch.where(exact >= table[-1], table[-1], torch.where(exact <= table[0], table[0], rounded))
    return torch.where(exact.isnan(), math.nan, rounded).float()


def encode_in_table(values: Tensor, grid: ElementParameters) -> Tensor:
    """Codes (int64) of a table's numbers; NaN is coded as 0 is."""
    numbers = torch.tensor(grid.table, dtype=torch.float64, device=values.device)
    codes = torch.tensor(grid.table_codes, device=values.device)
    exact = torch.where(values.isnan(), 0.0, values).double().contiguous()
    return codes[torch.bucketize(exact, numbers)]


def decode_in_table(codes: Tensor, grid: ElementParameters) -> Tensor:
    """fp32 numbers of a table's codes (int64)."""
    numbers = torch.zeros(1 << grid.bits, dtype=torch.float32, device=codes.device)
    numbers[torch.tensor(grid.table_codes, device=codes.device)] = torch.tensor(grid.table, device=codes.device)
    return numbers[codes]
